// What Jedis does by default: one transaction, one loop of WATCH or one pipeline, as its documentation has it.

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.Response;

final class JedisDefaults {
    private JedisDefaults() {}

    static void run(String version, String host, int port, String kind, String prefix) throws Exception {
        DefaultJedisClientConfig config = DefaultJedisClientConfig.builder().build();
        Map<String, String> settings = new LinkedHashMap<>();
        settings.put("connectionTimeoutMillis", String.valueOf(config.getConnectionTimeoutMillis()));
        settings.put("socketTimeoutMillis", String.valueOf(config.getSocketTimeoutMillis()));
        settings.put("blockingSocketTimeoutMillis", String.valueOf(config.getBlockingSocketTimeoutMillis()));
        settings.put("protocol", String.valueOf(config.getRedisProtocol()));
        try (RedisClient client = RedisClient.create(host, port)) {
            client.ping();
            String x = prefix + ":x", y = prefix + ":y";
            Run.byDefault("Jedis " + version, settings, () -> switch (kind) {
                case "multi" -> transaction(client, x, y);
                case "pipeline" -> pipeline(client, x, y);
                default -> watch(client, x, y);
            });
        }
    }

    private static Object transaction(RedisClient client, String x, String y) {
        try (AbstractTransaction transaction = client.multi()) {
            Response<Long> first = transaction.incr(x), second = transaction.incr(y);
            transaction.exec();
            return List.of(first.get(), second.get());
        }
    }

    private static Object pipeline(RedisClient client, String x, String y) {
        try (AbstractPipeline pipeline = client.pipelined()) {
            Response<Long> first = pipeline.incr(x), second = pipeline.incr(y);
            pipeline.sync();
            return List.of(first.get(), second.get());
        }
    }

    private static Object watch(RedisClient client, String x, String y) {
        while (true) {
            try (AbstractTransaction transaction = client.transaction(false)) {
                transaction.watch(x);
                String value = client.get(x);
                transaction.multi();
                transaction.set(x, String.valueOf(value == null ? 1 : Long.parseLong(value) + 1));
                transaction.incr(y);
                List<Object> answers = transaction.exec();
                if (answers != null) {
                    return answers;
                }
            }
        }
    }
}
