// The client go-redis at work: transfers, sales under WATCH, and a tour of types. ../README.md has the contract.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server that does not answer for so long is given up.
const patience = 30 * time.Second

var ctx = context.Background()

// Report is the line that each run prints.
type Report struct {
	Client     string   `json:"client"`
	Mode       string   `json:"mode"`
	Committed  int      `json:"committed"`
	Unknown    int      `json:"unknown"`
	Attempts   int      `json:"attempts"`
	UnknownIDs []string `json:"unknown_ids"`
	Errors     []string `json:"errors"`
}

// Run is what is counted, and the connections.
type Run struct {
	Report
	client   *redis.Client
	deadline time.Time
}

func (run *Run) committed() {
	run.Committed++
	run.deadline = time.Now().Add(patience)
}

func (run *Run) unknown(id string) error {
	run.Unknown++
	run.UnknownIDs = append(run.UnknownIDs, id)
	return run.awaitServer()
}

func (run *Run) attempt() error {
	if time.Now().After(run.deadline) {
		return fmt.Errorf("no commit in %s", patience)
	}
	run.Attempts++
	return nil
}

// awaitServer returns when the server answers again.
func (run *Run) awaitServer() error {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := run.client.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server does not come back: %w", err)
		}
	}
}

// isLost tells whether an answer did not come, as opposed to one that is an error.
func isLost(err error) bool {
	var answer redis.Error
	return err != nil && !errors.As(err, &answer) && !errors.Is(err, redis.Nil)
}

func isUnknown(err error) bool {
	return redis.HasErrorPrefix(err, "UNKNOWN")
}

// mayTryAgain tells whether nothing was done and trying again is right.
func mayTryAgain(err error) bool {
	for _, word := range []string{"TRYAGAIN", "LOADING", "CLUSTERDOWN", "MASTERDOWN"} {
		if strings.Contains(err.Error(), word) {
			return true
		}
	}
	return false
}

func (run *Run) transferAll(count int, worker string) error {
	total, err := run.readTotal()
	if err != nil {
		return err
	}
	for number := range count {
		if err := run.transfer(total, fmt.Sprintf("%s-%d", worker, number), rand.Int63n(21)-10); err != nil {
			return err
		}
	}
	return nil
}

func (run *Run) readTotal() (int64, error) {
	for {
		if err := run.awaitServer(); err != nil {
			return 0, err
		}
		var ada, bob *redis.StringCmd
		_, err := run.client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			ada, bob = pipe.Get(ctx, "account:ada"), pipe.Get(ctx, "account:bob")
			return nil
		})
		if isLost(err) {
			continue
		}
		a, errA := ada.Int64()
		b, errB := bob.Int64()
		return a + b, errors.Join(err, errA, errB)
	}
}

func (run *Run) transfer(total int64, id string, amount int64) error {
	for {
		if err := run.attempt(); err != nil {
			return err
		}
		var ada, bob, isNew *redis.IntCmd
		_, err := run.client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			ada = pipe.DecrBy(ctx, "account:ada", amount)
			bob = pipe.IncrBy(ctx, "account:bob", amount)
			isNew = pipe.HSet(ctx, "ledger", id, amount)
			pipe.RPush(ctx, "transfers", id)
			return nil
		})
		switch {
		case err == nil && ada.Val()+bob.Val() != total:
			return fmt.Errorf("%s saw %d and %d, which do not make %d", id, ada.Val(), bob.Val(), total)
		case err == nil && isNew.Val() != 1:
			return fmt.Errorf("%s was in the ledger before", id)
		case err == nil:
			run.committed()
			return nil
		case isLost(err) || isUnknown(err):
			return run.unknown(id)
		case !mayTryAgain(err):
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (run *Run) sellAll(count int, worker string) error {
	for number := range count {
		if err := run.sell(fmt.Sprintf("%s-%d", worker, number)); err != nil {
			return err
		}
	}
	return nil
}

func (run *Run) sell(id string) error {
	for {
		if err := run.attempt(); err != nil {
			return err
		}
		sent := false
		err := run.client.Watch(ctx, func(tx *redis.Tx) error {
			stock, err := tx.Get(ctx, "stock:1").Int()
			if err != nil {
				return err
			}
			if stock < 1 {
				return errors.New("sold out")
			}
			sent = true
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, "stock:1", stock-1, 0)
				pipe.Incr(ctx, "sold:1")
				pipe.RPush(ctx, "sales", id)
				return nil
			})
			return err
		}, "stock:1")
		switch {
		case err == nil:
			run.committed()
			return nil
		case errors.Is(err, redis.TxFailedErr):
			continue
		case isUnknown(err) || sent && isLost(err):
			return run.unknown(id)
		case isLost(err) && isOfNetwork(err):
			if err := run.awaitServer(); err != nil {
				return err
			}
		case !mayTryAgain(err):
			return err
		default:
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// isOfNetwork tells a connection that broke from an error of this program.
func isOfNetwork(err error) bool {
	var ofNetwork net.Error
	text := err.Error()
	return errors.As(err, &ofNetwork) || strings.Contains(text, "EOF") || strings.Contains(text, "connection")
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/redis/go-redis/v9" {
				return strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	return "of unknown version"
}

func (run *Run) do(host, port, mode string, rest []string) error {
	if mode == "types" {
		return tour(net.JoinHostPort(host, port), rest[0], &run.Report)
	}
	count, err := strconv.Atoi(rest[0])
	switch {
	case err != nil || len(rest) < 2:
		return errors.New("usage: HOST PORT (transfer | watch | errands) COUNT WORKER")
	case mode == "transfer":
		return run.transferAll(count, rest[1])
	case mode == "watch":
		return run.sellAll(count, rest[1])
	case mode == "errands":
		return run.giveAll(net.JoinHostPort(host, port), count, rest[1])
	}
	return fmt.Errorf("there is no mode %q", mode)
}

// giveAll does transfers by CLARET.DO, each given twice with the same id, to any node of a cluster.
func (run *Run) giveAll(address string, count int, worker string) error {
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}, ReadTimeout: patience})
	defer cluster.Close()
	give := func(words ...any) ([]any, error) {
		if err := run.attempt(); err != nil {
			return nil, err
		}
		for {
			answers, err := cluster.Do(ctx, append([]any{"CLARET.DO"}, words...)...).Slice()
			if err == nil || !mayTryAgain(err) {
				return answers, err
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	balances, err := give(2, "GET", "account:ada", 2, "GET", "account:bob")
	if err != nil {
		return err
	}
	var total int64
	for _, balance := range balances {
		number, err := strconv.ParseInt(fmt.Sprint(balance), 10, 64)
		if err != nil {
			return err
		}
		total += number
	}
	for number := range count {
		id, amount := fmt.Sprintf("%s-%d", worker, number), rand.Int63n(21)-10
		words := []any{
			"ONCE", id, 3, "INCRBY.RETURNING", "account:ada", -amount, 3, "INCRBY.RETURNING", "account:bob", amount,
			4, "HSET", "ledger", id, amount, 3, "RPUSH", "transfers", id,
		}
		first, err := give(words...)
		if err != nil {
			return err
		}
		again, err := give(words...)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(first, again) {
			return fmt.Errorf("%s was answered %v and then %v", id, first, again)
		}
		ada, isAda := first[0].(int64)
		bob, isBob := first[1].(int64)
		if !isAda || !isBob || ada+bob != total {
			return fmt.Errorf("%s saw %v and %v, which do not make %d", id, first[0], first[1], total)
		}
		run.committed()
	}
	return nil
}

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: program HOST PORT (transfer | watch | errands) COUNT WORKER, HOST PORT types PREFIX, or HOST PORT defaults KIND PREFIX")
		os.Exit(2)
	}
	host, port, mode := os.Args[1], os.Args[2], os.Args[3]
	if mode == "defaults" && len(os.Args) == 6 {
		if err := defaults(host, port, os.Args[4], os.Args[5]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	run := &Run{
		Report: Report{Client: "go-redis " + version(), Mode: mode, UnknownIDs: []string{}, Errors: []string{}},
		// By default the client sends some pipelines again that were lost. A transfer must not happen twice.
		client: redis.NewClient(&redis.Options{
			Addr: net.JoinHostPort(host, port), MaxRetries: -1, ReadTimeout: patience,
		}),
		deadline: time.Now().Add(patience),
	}
	if err := run.do(host, port, mode, os.Args[4:]); err != nil {
		run.Errors = append(run.Errors, err.Error())
	}
	line, _ := json.Marshal(run.Report)
	fmt.Println(string(line))
	if len(run.Errors) > 0 {
		os.Exit(1)
	}
}
