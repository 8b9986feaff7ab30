// What Lettuce does by default: one transaction, one loop of WATCH or one pipeline, as its documentation has it.

import io.lettuce.core.ClientOptions;
import io.lettuce.core.LettuceVersion;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SocketOptions;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

final class LettuceDefaults {
    private LettuceDefaults() {}

    static void run(String host, int port, String kind, String prefix) throws Exception {
        RedisClient client = RedisClient.create(RedisURI.create(host, port));
        ClientOptions options = client.getOptions();
        Map<String, String> settings = new LinkedHashMap<>();
        settings.put("timeout", String.valueOf(RedisURI.create(host, port).getTimeout()));
        settings.put("connectTimeout", String.valueOf(SocketOptions.create().getConnectTimeout()));
        settings.put("autoReconnect", String.valueOf(options.isAutoReconnect()));
        settings.put("timeoutCommands", String.valueOf(options.getTimeoutOptions().isTimeoutCommands()));
        settings.put("disconnectedBehavior", String.valueOf(options.getDisconnectedBehavior()));
        settings.put("protocol", String.valueOf(options.getConfiguredProtocolVersion()));
        StatefulRedisConnection<String, String> connection = client.connect();
        connection.sync().ping();
        String x = prefix + ":x", y = prefix + ":y";
        Run.byDefault("Lettuce " + LettuceVersion.getVersion(), settings, () -> switch (kind) {
            case "multi" -> transaction(connection.sync(), x, y);
            case "pipeline" -> pipeline(connection, x, y);
            default -> watch(connection.sync(), x, y);
        });
    }

    private static List<Object> answers(TransactionResult result) {
        for (Object answer : result) {
            if (answer instanceof RuntimeException error) {
                throw error;
            }
        }
        return result.stream().toList();
    }

    private static Object transaction(RedisCommands<String, String> commands, String x, String y) {
        commands.multi();
        commands.incr(x);
        commands.incr(y);
        return answers(commands.exec());
    }

    /** Commands of this interface are sent at once, and answered in their order. */
    private static Object pipeline(StatefulRedisConnection<String, String> connection, String x, String y) throws Exception {
        RedisFuture<Long> first = connection.async().incr(x), second = connection.async().incr(y);
        long patience = connection.getTimeout().toMillis();
        return List.of(first.get(patience, TimeUnit.MILLISECONDS), second.get(patience, TimeUnit.MILLISECONDS));
    }

    private static Object watch(RedisCommands<String, String> commands, String x, String y) {
        while (true) {
            commands.watch(x);
            String value = commands.get(x);
            commands.multi();
            commands.set(x, String.valueOf(value == null ? 1 : Long.parseLong(value) + 1));
            commands.incr(y);
            TransactionResult result = commands.exec();
            if (!result.wasDiscarded()) {
                return answers(result);
            }
        }
    }
}
