// What Lettuce makes of answers, in its own types.

import io.lettuce.core.KeyScanCursor;
import io.lettuce.core.KeyValue;
import io.lettuce.core.LMoveArgs;
import io.lettuce.core.Range;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScoredValue;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.StatusOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.CommandType;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

final class LettuceTypes {
    private final RedisClient client;
    private final StatefulRedisConnection<String, String> connection;
    private final RedisCommands<String, String> r;
    private final String p;

    LettuceTypes(RedisClient client, StatefulRedisConnection<String, String> connection, String prefix) {
        this.client = client;
        this.connection = connection;
        r = connection.sync();
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
        Run.same(null, r.set(p + "s", "other", SetArgs.Builder.nx()));
        Run.same("abc", r.setGet(p + "s", "new"));
        Run.same("OK", r.mset(Map.of(p + "m1", "1", p + "m2", "2", p + "m3", "3")));
        List<KeyValue<String, String>> read = r.mget(p + "m1", p + "absent", p + "m3");
        Run.same(List.of(KeyValue.just(p + "m1", "1"), KeyValue.empty(p + "absent"), KeyValue.just(p + "m3", "3")), read);
        Run.same(2L, r.exists(p + "m1", p + "m2", p + "absent"));
        Run.same(3L, r.del(p + "m1", p + "m2", p + "m3"));
    }

    private void integers() throws Exception {
        Run.same(1L, r.incr(p + "i"));
        Run.same(42L, r.incrby(p + "i", 41));
        Run.same(41L, r.decr(p + "i"));
        Run.same(1.5, r.incrbyfloat(p + "f", 1.5));
        r.set(p + "big", Long.toString(Long.MAX_VALUE));
        Run.fails(RedisCommandExecutionException.class, "overflow", () -> r.incr(p + "big"));
    }

    private void hashes() {
        Run.same(2L, r.hset(p + "h", Map.of("a", "1", "b", "2")));
        Run.same(Map.of("a", "1", "b", "2"), r.hgetall(p + "h"));
        Run.same(List.of(KeyValue.just("b", "2"), KeyValue.empty("absent")), r.hmget(p + "h", "b", "absent"));
        Run.same(5L, r.hincrby(p + "h", "a", 4));
        Run.same(true, r.hexists(p + "h", "a"));
        Run.same(1L, r.hdel(p + "h", "a", "absent"));
        Run.same(1L, r.hlen(p + "h"));
        Run.same(Map.of(), r.hgetall(p + "absent"));
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
        List<ScoredValue<String>> ordered =
            List.of(ScoredValue.just(0.5, "half"), ScoredValue.just(1, "one"), ScoredValue.just(much, "much"));
        Run.same(3L, r.zadd(p + "z", ordered.toArray(new ScoredValue[0])));
        Run.same(ordered, r.zrangeWithScores(p + "z", 0, -1));
        Run.same(0.5, r.zscore(p + "z", "half"));
        Run.same(null, r.zscore(p + "z", "absent"));
        Run.same(0.75, r.zincrby(p + "z", 0.25, "half"));
        Run.same(1L, r.zrank(p + "z", "one"));
        Run.same(1L, r.zcount(p + "z", Range.from(Range.Boundary.unbounded(), Range.Boundary.excluding(1))));
    }

    private void lists() {
        Run.same(3L, r.rpush(p + "l", "a", "b", "c"));
        Run.same(List.of("a", "b", "c"), r.lrange(p + "l", 0, -1));
        Run.same("c", r.lindex(p + "l", -1));
        Run.same("a", r.lpop(p + "l"));
        Run.same("b", r.lmove(p + "l", p + "l2", LMoveArgs.Builder.leftRight()));
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
        Class<RedisCommandExecutionException> kind = RedisCommandExecutionException.class;
        StringCodec codec = StringCodec.UTF8;
        r.rpush(p + "list", "a");
        Run.fails(kind, "WRONGTYPE", () -> r.get(p + "list"));
        Run.fails(kind, "WRONGTYPE", () -> r.incr(p + "list"));
        Run.fails(kind, "wrong number of arguments",
            () -> r.dispatch(CommandType.GET, new StatusOutput<>(codec), new CommandArgs<>(codec)));
    }

    private void pipelines() throws Exception {
        List<RedisFuture<String>> written = new ArrayList<>(), read = new ArrayList<>();
        connection.setAutoFlushCommands(false);
        for (int number = 0; number < 1000; number++) {
            written.add(connection.async().set(p + "p:" + number, Integer.toString(number)));
        }
        for (int number = 0; number < 1000; number++) {
            read.add(connection.async().get(p + "p:" + number));
        }
        RedisFuture<Long> one = connection.async().incr(p + "n");
        RedisFuture<Long> wrong = connection.async().lpush(p + "n", "a");
        RedisFuture<Long> two = connection.async().incr(p + "n");
        connection.flushCommands();
        connection.setAutoFlushCommands(true);
        for (int number = 0; number < 1000; number++) {
            Run.same("OK", written.get(number).get(10, TimeUnit.SECONDS));
            Run.same(Integer.toString(number), read.get(number).get(10, TimeUnit.SECONDS));
        }
        Run.same(1L, one.get(10, TimeUnit.SECONDS));
        Run.fails(java.util.concurrent.ExecutionException.class, "WRONGTYPE", () -> wrong.get(10, TimeUnit.SECONDS));
        Run.same(2L, two.get(10, TimeUnit.SECONDS));
    }

    private void binary() {
        byte[] value = Run.binary(), key = (p + "\0\u00ff\r\n").getBytes();
        try (StatefulRedisConnection<byte[], byte[]> bytes = client.connect(ByteArrayCodec.INSTANCE)) {
            bytes.sync().set(key, value);
            Run.isTrue(Arrays.equals(value, bytes.sync().get(key)), "other bytes");
            bytes.sync().hset((p + "hb").getBytes(), value, value);
            Run.isTrue(Arrays.equals(value, bytes.sync().hvals((p + "hb").getBytes()).get(0)), "other bytes in the hash");
        }
        String large = "x".repeat(1_000_000);
        r.set(p + "long", large);
        Run.same(large, r.get(p + "long"));
    }

    private void blockingPop() {
        try (StatefulRedisConnection<String, String> own = client.connect()) {
            long began = System.nanoTime();
            Run.same(null, own.sync().blpop(0.2, p + "queue"));
            long took = (System.nanoTime() - began) / 1_000_000;
            Run.isTrue(took > 100 && took < 5000, "a BLPOP of 200 ms took " + took);
            CompletableFuture.delayedExecutor(200, TimeUnit.MILLISECONDS).execute(() -> r.rpush(p + "queue", "job"));
            Run.same(KeyValue.just(p + "queue", "job"), own.sync().blpop(10.0, p + "queue"));
        }
    }

    private void publishAndSubscribe() throws Exception {
        try (StatefulRedisPubSubConnection<String, String> subscriber = client.connectPubSub()) {
            CompletableFuture<String> heard = new CompletableFuture<>();
            subscriber.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String message) {
                    heard.complete(channel + " " + message);
                }
            });
            subscriber.sync().subscribe(p + "news");
            Run.same(1L, r.publish(p + "news", "hello"));
            Run.same(p + "news hello", heard.get(5, TimeUnit.SECONDS));
            subscriber.sync().unsubscribe(p + "news");
        }
    }

    private void scan() {
        for (int number = 0; number < 1000; number++) {
            connection.async().set(p + "scan:" + number, "1");
        }
        r.ping();
        Set<String> found = new HashSet<>();
        ScanArgs arguments = ScanArgs.Builder.matches(p + "scan:*").limit(100);
        KeyScanCursor<String> cursor = r.scan(arguments);
        found.addAll(cursor.getKeys());
        while (!cursor.isFinished()) {
            cursor = r.scan(cursor, arguments);
            found.addAll(cursor.getKeys());
        }
        Run.same(1000, found.size());
    }

    private void scripts() throws Exception {
        String script = "return redis.call('INCRBY', KEYS[1], ARGV[1]) -- " + p;
        String sha = r.digest(script);
        String[] keys = {p + "script"};
        Run.fails(RedisNoScriptException.class, "NOSCRIPT", () -> r.evalsha(sha, ScriptOutputType.INTEGER, keys, "1"));
        Run.same(5L, r.eval(script, ScriptOutputType.INTEGER, keys, "5"));
        Run.same(7L, r.evalsha(sha, ScriptOutputType.INTEGER, keys, "2"));
        Run.same(Arrays.asList(1L, "two", null), r.eval("return {1, 'two', false}", ScriptOutputType.MULTI, keys));
    }

    private void expiry() throws Exception {
        Run.same("OK", r.set(p + "e", "a", SetArgs.Builder.px(150)));
        long left = r.pttl(p + "e");
        Run.isTrue(left > 0 && left <= 150, "PTTL is " + left);
        Run.same(false, r.expire(p + "absent", 10));
        r.setex(p + "k", 100, "a");
        Run.same(true, r.persist(p + "k"));
        Run.same(-1L, r.ttl(p + "k"));
        Thread.sleep(400);
        Run.same(null, r.get(p + "e"));
    }
}
