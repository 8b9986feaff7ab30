// What Jedis makes of answers, in its own types.

import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.ScanIteration;
import redis.clients.jedis.args.ListDirection;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisNoScriptException;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.Tuple;
import redis.clients.jedis.util.KeyValue;

final class JedisTypes {
    private final RedisClient r;
    private final String p;

    JedisTypes(RedisClient client, String prefix) {
        r = client;
        p = prefix + ":";
    }

    void tour(Run run, String suffix) {
        run.check("strings" + suffix, this::strings);
        run.check("integers" + suffix, this::integers);
        run.check("hashes" + suffix, this::hashes);
        run.check("sets" + suffix, this::sets);
        run.check("sorted sets" + suffix, this::sortedSets);
        run.check("lists" + suffix, this::lists);
        run.check("nils" + suffix, this::nils);
        run.check("errors" + suffix, this::errors);
        run.check("pipelines" + suffix, this::pipelines);
        run.check("binary" + suffix, this::binary);
        run.check("blocking pop" + suffix, this::blockingPop);
        run.check("publish and subscribe" + suffix, this::publishAndSubscribe);
        run.check("scan" + suffix, this::scan);
        run.check("scripts" + suffix, this::scripts);
        run.check("expiry" + suffix, this::expiry);
    }

    private void strings() {
        Run.same("OK", r.set(p + "s", "a"));
        Run.same(3L, r.append(p + "s", "bc"));
        Run.same("abc", r.get(p + "s"));
        Run.same("bc", r.getrange(p + "s", 1, 2));
        Run.same(null, r.set(p + "s", "other", SetParams.setParams().nx()));
        Run.same("abc", r.setGet(p + "s", "new"));
        Run.same("OK", r.mset(p + "m1", "1", p + "m2", "2", p + "m3", "3"));
        Run.same(Arrays.asList("1", null, "3"), r.mget(p + "m1", p + "absent", p + "m3"));
        Run.same(2L, r.exists(p + "m1", p + "m2", p + "absent"));
        Run.same(3L, r.del(p + "m1", p + "m2", p + "m3"));
    }

    private void integers() throws Exception {
        Run.same(1L, r.incr(p + "i"));
        Run.same(42L, r.incrBy(p + "i", 41));
        Run.same(41L, r.decr(p + "i"));
        Run.same(1.5, r.incrByFloat(p + "f", 1.5));
        r.set(p + "big", Long.toString(Long.MAX_VALUE));
        Run.fails(JedisDataException.class, "overflow", () -> r.incr(p + "big"));
    }

    private void hashes() {
        Run.same(2L, r.hset(p + "h", Map.of("a", "1", "b", "2")));
        Run.same(Map.of("a", "1", "b", "2"), r.hgetAll(p + "h"));
        Run.same(Arrays.asList("2", null), r.hmget(p + "h", "b", "absent"));
        Run.same(5L, r.hincrBy(p + "h", "a", 4));
        Run.same(true, r.hexists(p + "h", "a"));
        Run.same(1L, r.hdel(p + "h", "a", "absent"));
        Run.same(1L, r.hlen(p + "h"));
        Run.same(Map.of(), r.hgetAll(p + "absent"));
    }

    private void sets() {
        Run.same(3L, r.sadd(p + "set", "a", "b", "c"));
        Run.same(Set.of("a", "b", "c"), r.smembers(p + "set"));
        Run.same(false, r.sismember(p + "set", "z"));
        r.sadd(p + "set2", "b", "c", "d");
        Run.same(Set.of("b", "c"), r.sinter(p + "set", p + "set2"));
        Run.same(Set.of("a", "b", "c", "d"), r.sunion(p + "set", p + "set2"));
        Run.same(1L, r.srem(p + "set", "a"));
    }

    private void sortedSets() {
        double much = Double.POSITIVE_INFINITY;
        Run.same(3L, r.zadd(p + "z", Map.of("one", 1.0, "half", 0.5, "much", much)));
        List<Tuple> ordered = List.of(new Tuple("half", 0.5), new Tuple("one", 1.0), new Tuple("much", much));
        Run.same(ordered, r.zrangeWithScores(p + "z", 0, -1));
        Run.same(0.5, r.zscore(p + "z", "half"));
        Run.same(null, r.zscore(p + "z", "absent"));
        Run.same(0.75, r.zincrby(p + "z", 0.25, "half"));
        Run.same(1L, r.zrank(p + "z", "one"));
        Run.same(1L, r.zcount(p + "z", "-inf", "(1"));
    }

    private void lists() {
        Run.same(3L, r.rpush(p + "l", "a", "b", "c"));
        Run.same(List.of("a", "b", "c"), r.lrange(p + "l", 0, -1));
        Run.same("c", r.lindex(p + "l", -1));
        Run.same("a", r.lpop(p + "l"));
        Run.same("b", r.lmove(p + "l", p + "l2", ListDirection.LEFT, ListDirection.RIGHT));
        Run.same(1L, r.llen(p + "l"));
    }

    private void nils() {
        Run.same(null, r.get(p + "absent"));
        Run.same(null, r.hget(p + "absent", "f"));
        Run.same(null, r.lpop(p + "absent"));
        Run.same(null, r.lindex(p + "absent", 0));
        Run.same(-2L, r.ttl(p + "absent"));
        Run.same(List.of(), r.lrange(p + "absent", 0, -1));
    }

    private void errors() throws Exception {
        r.rpush(p + "list", "a");
        Run.fails(JedisDataException.class, "WRONGTYPE", () -> r.get(p + "list"));
        Run.fails(JedisDataException.class, "WRONGTYPE", () -> r.incr(p + "list"));
        Run.fails(JedisDataException.class, "unknown command", () -> r.sendCommand(() -> "NOSUCHCOMMAND".getBytes()));
        Run.fails(JedisDataException.class, "wrong number of arguments", () -> r.sendCommand(Protocol.Command.GET));
    }

    private void pipelines() throws Exception {
        try (Pipeline pipe = r.pipelined()) {
            for (int number = 0; number < 1000; number++) {
                pipe.set(p + "p:" + number, Integer.toString(number));
            }
            Run.same(Set.of("OK"), new HashSet<>(pipe.syncAndReturnAll()));
            for (int number = 0; number < 1000; number++) {
                pipe.get(p + "p:" + number);
            }
            List<Object> read = pipe.syncAndReturnAll();
            Run.same(1000, read.size());
            for (int number = 0; number < 1000; number++) {
                Run.same(Integer.toString(number), read.get(number));
            }
            Response<Long> one = pipe.incr(p + "n"), wrong = pipe.lpush(p + "n", "a"), two = pipe.incr(p + "n");
            pipe.sync();
            Run.same(1L, one.get());
            Run.fails(JedisDataException.class, "WRONGTYPE", wrong::get);
            Run.same(2L, two.get());
        }
    }

    private void binary() {
        byte[] value = Run.binary(), key = (p + "\0\u00ff\r\n").getBytes();
        r.set(key, value);
        Run.isTrue(Arrays.equals(value, r.get(key)), "other bytes");
        r.hset((p + "hb").getBytes(), value, value);
        Run.isTrue(Arrays.equals(value, r.hgetAll((p + "hb").getBytes()).get(value)), "other bytes in the hash");
        String large = "x".repeat(1_000_000);
        r.set(p + "long", large);
        Run.same(large, r.get(p + "long"));
    }

    private void blockingPop() {
        long began = System.nanoTime();
        Run.same(null, r.blpop(0.2, p + "queue"));
        long took = (System.nanoTime() - began) / 1_000_000;
        Run.isTrue(took > 100 && took < 5000, "a BLPOP of 200 ms took " + took);
        CompletableFuture.delayedExecutor(200, TimeUnit.MILLISECONDS).execute(() -> r.rpush(p + "queue", "job"));
        Run.same(new KeyValue<>(p + "queue", "job"), r.blpop(10.0, p + "queue"));
    }

    private void publishAndSubscribe() throws Exception {
        CompletableFuture<Void> subscribed = new CompletableFuture<>();
        CompletableFuture<String> heard = new CompletableFuture<>();
        JedisPubSub listener = new JedisPubSub() {
            @Override
            public void onSubscribe(String channel, int channels) {
                subscribed.complete(null);
            }

            @Override
            public void onMessage(String channel, String message) {
                heard.complete(channel + " " + message);
                unsubscribe();
            }
        };
        Thread thread = new Thread(() -> r.subscribe(listener, p + "news"));
        thread.setDaemon(true);
        thread.start();
        subscribed.get(5, TimeUnit.SECONDS);
        Run.same(1L, r.publish(p + "news", "hello"));
        Run.same(p + "news hello", heard.get(5, TimeUnit.SECONDS));
        thread.join(Duration.ofSeconds(5).toMillis());
        Run.isTrue(!thread.isAlive(), "UNSUBSCRIBE does not end the subscription");
    }

    private void scan() {
        try (Pipeline pipe = r.pipelined()) {
            for (int number = 0; number < 1000; number++) {
                pipe.set(p + "scan:" + number, "1");
            }
            pipe.sync();
        }
        Set<String> found = new HashSet<>();
        ScanIteration iteration = r.scanIteration(100, p + "scan:*");
        while (!iteration.isIterationCompleted()) {
            found.addAll(iteration.nextBatchList());
        }
        Run.same(1000, found.size());
    }

    private void scripts() throws Exception {
        String script = "return redis.call('INCRBY', KEYS[1], ARGV[1]) -- " + p, key = p + "script";
        String sha = sha1(script);
        Run.fails(JedisNoScriptException.class, "NOSCRIPT", () -> r.evalsha(sha, 1, key, "1"));
        Run.same(5L, r.eval(script, 1, key, "5"));
        Run.same(7L, r.evalsha(sha, 1, key, "2"));
        Run.same(Arrays.asList(1L, "two", null), r.eval("return {1, 'two', false}", 1, key));
    }

    static String sha1(String text) throws Exception {
        StringBuilder hex = new StringBuilder();
        for (byte it : java.security.MessageDigest.getInstance("SHA-1").digest(text.getBytes())) {
            hex.append(String.format("%02x", it));
        }
        return hex.toString();
    }

    private void expiry() throws Exception {
        Run.same("OK", r.set(p + "e", "a", SetParams.setParams().px(150)));
        long left = r.pttl(p + "e");
        Run.isTrue(left > 0 && left <= 150, "PTTL is " + left);
        Run.same(0L, r.expire(p + "absent", 10));
        r.setex(p + "k", 100, "a");
        Run.same(1L, r.persist(p + "k"));
        Run.same(-1L, r.ttl(p + "k"));
        Thread.sleep(400);
        Run.same(null, r.get(p + "e"));
    }
}
