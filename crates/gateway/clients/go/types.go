// What go-redis makes of answers, in its own types. Each check is a function of the connection and a prefix of keys.
package main

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"sort"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// tally gathers what is not as it should be in one check.
type tally struct{ problems []string }

// same compares an answer, with the error beside it, to what is expected.
func (t *tally) same(expected any) func(value any, err error) {
	return func(value any, err error) {
		if err != nil {
			t.problems = append(t.problems, err.Error())
		} else if !reflect.DeepEqual(value, expected) {
			t.problems = append(t.problems, fmt.Sprintf("%#v instead of %#v", value, expected))
		}
	}
}

func (t *tally) is(what string, holds bool) {
	if !holds {
		t.problems = append(t.problems, what)
	}
}

func (t *tally) fails(err error, words string) {
	t.is(fmt.Sprintf("%v where an error with %q was expected", err, words), err != nil && strings.Contains(err.Error(), words))
}

// pair makes one value of an answer and its error, whatever its type.
func pair[T any](value T, err error) (any, error) { return value, err }

type check struct {
	name string
	run  func(t *tally, r *redis.Client, p string)
}

var checks = []check{
	{"strings", stringsCheck}, {"integers", integers}, {"hashes", hashes}, {"sets", sets}, {"sorted sets", sortedSets},
	{"lists", lists}, {"nils", nils}, {"errors", errorsCheck}, {"pipelines", pipelines}, {"binary", binary},
	{"blocking pop", blockingPop}, {"publish and subscribe", publishAndSubscribe}, {"scan", scan}, {"scripts", scripts},
	{"expiry", expiry},
}

func stringsCheck(t *tally, r *redis.Client, p string) {
	t.same("OK")(pair(r.Set(ctx, p+":s", "a", 0).Result()))
	t.same(int64(3))(pair(r.Append(ctx, p+":s", "bc").Result()))
	t.same("abc")(pair(r.Get(ctx, p+":s").Result()))
	t.same("bc")(pair(r.GetRange(ctx, p+":s", 1, 2).Result()))
	_, err := r.SetArgs(ctx, p+":s", "other", redis.SetArgs{Mode: "NX"}).Result()
	t.is("SET NX of a key that is there", errors.Is(err, redis.Nil))
	t.same("abc")(pair(r.SetArgs(ctx, p+":s", "new", redis.SetArgs{Get: true}).Result()))
	t.same("OK")(pair(r.MSet(ctx, p+":m1", "1", p+":m2", "2", p+":m3", "3").Result()))
	t.same([]any{"1", nil, "3"})(pair(r.MGet(ctx, p+":m1", p+":absent", p+":m3").Result()))
	t.same(int64(2))(pair(r.Exists(ctx, p+":m1", p+":m2", p+":absent").Result()))
	t.same(int64(3))(pair(r.Del(ctx, p+":m1", p+":m2", p+":m3").Result()))
}

func integers(t *tally, r *redis.Client, p string) {
	t.same(int64(1))(pair(r.Incr(ctx, p+":i").Result()))
	t.same(int64(42))(pair(r.IncrBy(ctx, p+":i", 41).Result()))
	t.same(int64(41))(pair(r.Decr(ctx, p+":i").Result()))
	t.same(1.5)(pair(r.IncrByFloat(ctx, p+":f", 1.5).Result()))
	r.Set(ctx, p+":big", math.MaxInt64, 0)
	t.fails(r.Incr(ctx, p+":big").Err(), "overflow")
}

func hashes(t *tally, r *redis.Client, p string) {
	t.same(int64(2))(pair(r.HSet(ctx, p+":h", "a", 1, "b", 2).Result()))
	t.same(map[string]string{"a": "1", "b": "2"})(pair(r.HGetAll(ctx, p+":h").Result()))
	t.same([]any{"2", nil})(pair(r.HMGet(ctx, p+":h", "b", "absent").Result()))
	t.same(int64(5))(pair(r.HIncrBy(ctx, p+":h", "a", 4).Result()))
	t.same(true)(pair(r.HExists(ctx, p+":h", "a").Result()))
	t.same(int64(1))(pair(r.HDel(ctx, p+":h", "a", "absent").Result()))
	t.same(int64(1))(pair(r.HLen(ctx, p+":h").Result()))
	t.same(map[string]string{})(pair(r.HGetAll(ctx, p+":absent").Result()))
}

func sorted(words []string, err error) (any, error) {
	sort.Strings(words)
	return words, err
}

func sets(t *tally, r *redis.Client, p string) {
	t.same(int64(3))(pair(r.SAdd(ctx, p+":set", "a", "b", "c").Result()))
	t.same(map[string]struct{}{"a": {}, "b": {}, "c": {}})(pair(r.SMembersMap(ctx, p+":set").Result()))
	t.same(false)(pair(r.SIsMember(ctx, p+":set", "z").Result()))
	r.SAdd(ctx, p+":set2", "b", "c", "d")
	t.same([]string{"b", "c"})(sorted(r.SInter(ctx, p+":set", p+":set2").Result()))
	t.same([]string{"a", "b", "c", "d"})(sorted(r.SUnion(ctx, p+":set", p+":set2").Result()))
	t.same(int64(1))(pair(r.SRem(ctx, p+":set", "a").Result()))
}

func sortedSets(t *tally, r *redis.Client, p string) {
	much := math.Inf(1)
	members := []redis.Z{{Score: 1, Member: "one"}, {Score: 0.5, Member: "half"}, {Score: much, Member: "much"}}
	t.same(int64(3))(pair(r.ZAdd(ctx, p+":z", members...).Result()))
	ordered := []redis.Z{{Score: 0.5, Member: "half"}, {Score: 1, Member: "one"}, {Score: much, Member: "much"}}
	t.same(ordered)(pair(r.ZRangeWithScores(ctx, p+":z", 0, -1).Result()))
	t.same(0.5)(pair(r.ZScore(ctx, p+":z", "half").Result()))
	t.is("ZSCORE of nobody", errors.Is(r.ZScore(ctx, p+":z", "absent").Err(), redis.Nil))
	t.same(0.75)(pair(r.ZIncrBy(ctx, p+":z", 0.25, "half").Result()))
	t.same(int64(1))(pair(r.ZRank(ctx, p+":z", "one").Result()))
	t.same(int64(1))(pair(r.ZCount(ctx, p+":z", "-inf", "(1").Result()))
}

func lists(t *tally, r *redis.Client, p string) {
	t.same(int64(3))(pair(r.RPush(ctx, p+":l", "a", "b", "c").Result()))
	t.same([]string{"a", "b", "c"})(pair(r.LRange(ctx, p+":l", 0, -1).Result()))
	t.same("c")(pair(r.LIndex(ctx, p+":l", -1).Result()))
	t.same("a")(pair(r.LPop(ctx, p+":l").Result()))
	t.same("b")(pair(r.LMove(ctx, p+":l", p+":l2", "LEFT", "RIGHT").Result()))
	t.same(int64(1))(pair(r.LLen(ctx, p+":l").Result()))
}

func nils(t *tally, r *redis.Client, p string) {
	absent := p + ":absent"
	for _, err := range []error{
		r.Get(ctx, absent).Err(), r.HGet(ctx, absent, "f").Err(), r.LPop(ctx, absent).Err(), r.LIndex(ctx, absent, 0).Err(),
	} {
		t.is(fmt.Sprintf("%v instead of redis.Nil", err), errors.Is(err, redis.Nil))
	}
	t.same(time.Duration(-2))(pair(r.TTL(ctx, absent).Result()))
	t.same([]string{})(pair(r.LRange(ctx, absent, 0, -1).Result()))
}

func errorsCheck(t *tally, r *redis.Client, p string) {
	r.RPush(ctx, p+":list", "a")
	err := r.Get(ctx, p+":list").Err()
	t.is(fmt.Sprintf("%v instead of WRONGTYPE", err), redis.HasErrorPrefix(err, "WRONGTYPE"))
	t.is("INCR of a list", redis.HasErrorPrefix(r.Incr(ctx, p+":list").Err(), "WRONGTYPE"))
	t.fails(r.Do(ctx, "NOSUCHCOMMAND").Err(), "unknown command")
	t.fails(r.Do(ctx, "GET").Err(), "wrong number of arguments")
}

func pipelines(t *tally, r *redis.Client, p string) {
	name := func(number int) string { return fmt.Sprintf("%s:p:%d", p, number) }
	_, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range 1000 {
			pipe.Set(ctx, name(number), number, 0)
		}
		return nil
	})
	t.same(nil)(nil, err)
	read, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range 1000 {
			pipe.Get(ctx, name(number))
		}
		return nil
	})
	t.same(1000)(len(read), err)
	for number, answer := range read {
		t.same(number)(pair(answer.(*redis.StringCmd).Int()))
	}
	answers, _ := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, p+":n")
		pipe.LPush(ctx, p+":n", "a")
		pipe.Incr(ctx, p+":n")
		return nil
	})
	t.same(int64(1))(pair(answers[0].(*redis.IntCmd).Result()))
	t.fails(answers[1].Err(), "WRONGTYPE")
	t.same(int64(2))(pair(answers[2].(*redis.IntCmd).Result()))
}

func binary(t *tally, r *redis.Client, p string) {
	bytes := make([]byte, 256)
	for at := range bytes {
		bytes[at] = byte(at)
	}
	value := string(bytes) + "\r\n$-1\r\n"
	r.Set(ctx, p+":\x00\xff\r\n", value, 0)
	t.same(value)(pair(r.Get(ctx, p+":\x00\xff\r\n").Result()))
	r.HSet(ctx, p+":hb", value, value)
	t.same(map[string]string{value: value})(pair(r.HGetAll(ctx, p+":hb").Result()))
	long := strings.Repeat("x", 1_000_000)
	r.Set(ctx, p+":long", long, 0)
	t.same(long)(pair(r.Get(ctx, p+":long").Result()))
}

func blockingPop(t *tally, r *redis.Client, p string) {
	began := time.Now()
	err := r.BLPop(ctx, time.Second, p+":queue").Err()
	t.is(fmt.Sprintf("%v after a BLPOP in vain", err), errors.Is(err, redis.Nil))
	took := time.Since(began)
	t.is(fmt.Sprintf("a BLPOP of 1 s took %s", took), took > 900*time.Millisecond && took < 6*time.Second)
	time.AfterFunc(200*time.Millisecond, func() { r.RPush(ctx, p+":queue", "job") })
	t.same([]string{p + ":queue", "job"})(pair(r.BLPop(ctx, 10*time.Second, p+":queue").Result()))
}

func publishAndSubscribe(t *tally, r *redis.Client, p string) {
	subscription := r.Subscribe(ctx, p+":news")
	defer subscription.Close()
	if _, err := subscription.Receive(ctx); err != nil {
		t.is(err.Error(), false)
		return
	}
	t.same(int64(1))(pair(r.Publish(ctx, p+":news", "hello").Result()))
	select {
	case message := <-subscription.Channel():
		t.same("hello")(message.Payload, nil)
	case <-time.After(5 * time.Second):
		t.is("no message came", false)
	}
}

func scan(t *tally, r *redis.Client, p string) {
	r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range 1000 {
			pipe.Set(ctx, fmt.Sprintf("%s:scan:%d", p, number), 1, 0)
		}
		return nil
	})
	found := map[string]bool{}
	iterator := r.Scan(ctx, 0, p+":scan:*", 100).Iterator()
	for iterator.Next(ctx) {
		found[iterator.Val()] = true
	}
	t.same(1000)(len(found), iterator.Err())
}

func scripts(t *tally, r *redis.Client, p string) {
	script := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1]) -- " + p)
	keys := []string{p + ":script"}
	t.is("a script that nobody loaded is there", redis.HasErrorPrefix(script.EvalSha(ctx, r, keys, 1).Err(), "NOSCRIPT"))
	t.same(int64(5))(pair(script.Run(ctx, r, keys, 5).Result()))
	t.same(int64(7))(pair(script.EvalSha(ctx, r, keys, 2).Result()))
	t.same([]any{int64(1), "two", nil})(pair(r.Eval(ctx, "return {1, 'two', false}", keys).Result()))
}

func expiry(t *tally, r *redis.Client, p string) {
	t.same("OK")(pair(r.Set(ctx, p+":e", "a", 150*time.Millisecond).Result()))
	left := r.PTTL(ctx, p+":e").Val()
	t.is(fmt.Sprintf("PTTL is %s", left), left > 0 && left <= 150*time.Millisecond)
	t.same(false)(pair(r.Expire(ctx, p+":absent", time.Minute).Result()))
	r.Set(ctx, p+":k", "a", 100*time.Second)
	t.same(true)(pair(r.Persist(ctx, p+":k").Result()))
	t.same(time.Duration(-1))(pair(r.TTL(ctx, p+":k").Result()))
	time.Sleep(400 * time.Millisecond)
	t.is("a value outlives its time", errors.Is(r.Get(ctx, p+":e").Err(), redis.Nil))
}

func tour(address, prefix string, report *Report) error {
	conclude := func(name string, t *tally) {
		report.Attempts++
		if len(t.problems) == 0 {
			report.Committed++
		}
		for _, problem := range t.problems {
			report.Errors = append(report.Errors, name+": "+problem)
		}
	}
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: address, Protocol: protocol})
		for _, check := range checks {
			t := &tally{}
			check.run(t, client, fmt.Sprintf("%s:%d", prefix, protocol))
			conclude(fmt.Sprintf("%s in RESP%d", check.name, protocol), t)
		}
		client.Close()
	}
	t := &tally{}
	stranger := redis.NewClient(&redis.Options{Addr: address, Username: "nobody", Password: "wrong"})
	t.fails(stranger.Ping(ctx).Err(), "WRONGPASS")
	conclude("authentication", t)
	return nil
}
