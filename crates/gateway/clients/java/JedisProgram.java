// The client Jedis at work: transfers, sales under WATCH, and a tour of types. ../README.md has the contract.

import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import java.util.Properties;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisAccessControlException;
import redis.clients.jedis.exceptions.JedisDataException;

public final class JedisProgram implements Run.Errors {
    private final RedisClient client;
    private final Run run;

    private JedisProgram(String host, int port, Run run) {
        this.client = RedisClient.create(host, port);
        this.run = run;
    }

    public static void main(String[] arguments) throws IOException {
        Run.checkArguments(arguments);
        String host = arguments[0], mode = arguments[2];
        int port = Integer.parseInt(arguments[1]);
        Run run = new Run("Jedis " + version(), mode);
        run.end(() -> {
            if (mode.equals("types")) {
                tour(host, port, run, arguments[3]);
                return;
            }
            if (mode.equals("defaults")) {
                JedisDefaults.run(version(), host, port, arguments[3], arguments[4]);
                return;
            }
            JedisProgram program = new JedisProgram(host, port, run);
            int count = Integer.parseInt(arguments[3]);
            if (mode.equals("transfer")) {
                program.transferAll(count, arguments[4]);
            } else {
                program.sellAll(count, arguments[4]);
            }
        });
    }

    private static String version() throws IOException {
        Properties properties = new Properties();
        try (InputStream file = RedisClient.class.getResourceAsStream("/META-INF/maven/redis.clients/jedis/pom.properties")) {
            properties.load(file);
        }
        return properties.getProperty("version");
    }

    @Override
    public boolean isAnswer(Exception error) {
        return error instanceof JedisDataException;
    }

    @Override
    public void awaitServer() throws Exception {
        Run.untilAnswered(client::ping);
    }

    private void transferAll(int count, String worker) throws Exception {
        long total = Run.untilRead(this, this::readTotal);
        for (int number = 0; number < count; number++) {
            String id = worker + "-" + number;
            long amount = Run.amount();
            run.untilDone(id, this, state -> transfer(total, id, amount, state));
        }
    }

    private long readTotal() {
        try (AbstractTransaction reading = client.multi()) {
            Response<String> ada = reading.get("account:ada"), bob = reading.get("account:bob");
            reading.exec();
            return Long.parseLong(ada.get()) + Long.parseLong(bob.get());
        }
    }

    private Run.Outcome transfer(long total, String id, long amount, Run.State state) {
        try (AbstractTransaction transaction = client.multi()) {
            Response<Long> ada = transaction.decrBy("account:ada", amount);
            Response<Long> bob = transaction.incrBy("account:bob", amount);
            Response<Long> isNew = transaction.hset("ledger", id, Long.toString(amount));
            transaction.rpush("transfers", id);
            state.sent = true;
            transaction.exec();
            Run.checkTransfer(id, total, ada.get(), bob.get(), isNew.get());
            return Run.Outcome.DONE;
        }
    }

    private void sellAll(int count, String worker) throws Exception {
        for (int number = 0; number < count; number++) {
            String id = worker + "-" + number;
            run.untilDone(id, this, state -> sell(id, state));
        }
    }

    /** What is watched is read by another connection of the pool, as this client's interface has it. */
    private Run.Outcome sell(String id, Run.State state) {
        try (AbstractTransaction transaction = client.transaction(false)) {
            transaction.watch("stock:1");
            long stock = Long.parseLong(client.get("stock:1"));
            Run.isTrue(stock > 0, "sold out");
            transaction.multi();
            transaction.set("stock:1", Long.toString(stock - 1));
            transaction.incr("sold:1");
            transaction.rpush("sales", id);
            state.sent = true;
            List<Object> answers = transaction.exec();
            return answers == null ? Run.Outcome.CHANGED : Run.Outcome.DONE;
        }
    }

    private static void tour(String host, int port, Run run, String prefix) {
        for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            DefaultJedisClientConfig config = DefaultJedisClientConfig.builder().protocol(protocol).build();
            try (RedisClient client = RedisClient.builder().hostAndPort(host, port).clientConfig(config).build()) {
                new JedisTypes(client, prefix + ":" + protocol).tour(run, " in " + protocol);
            }
        }
        run.check("authentication", () -> {
            try (RedisClient stranger = RedisClient.create(host, port, "nobody", "wrong")) {
                Run.fails(JedisAccessControlException.class, "WRONGPASS", stranger::ping);
            }
        });
    }
}
