// The client Lettuce at work: transfers, sales under WATCH, and a tour of types. ../README.md has the contract.

import io.lettuce.core.ClientOptions;
import io.lettuce.core.LettuceVersion;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import java.time.Duration;
import java.util.List;

public final class LettuceProgram implements Run.Errors {
    private final RedisClient client;
    private final Run run;
    private StatefulRedisConnection<String, String> connection;

    private LettuceProgram(String host, int port, Run run) {
        this.client = client(host, port, ProtocolVersion.RESP3);
        this.run = run;
    }

    /**
     * By default the client connects again by itself and sends again what was not answered. A transfer must not happen twice, and
     * what WATCH watched is forgotten with the connection: this program connects again itself.
     */
    private static RedisClient client(String host, int port, ProtocolVersion protocol) {
        RedisClient client = RedisClient.create(RedisURI.builder().withHost(host).withPort(port)
            .withTimeout(Duration.ofMillis(Run.PATIENCE_MS)).build());
        client.setOptions(ClientOptions.builder().autoReconnect(false).protocolVersion(protocol).build());
        return client;
    }

    public static void main(String[] arguments) {
        Run.checkArguments(arguments);
        String host = arguments[0], mode = arguments[2];
        int port = Integer.parseInt(arguments[1]);
        Run run = new Run("Lettuce " + LettuceVersion.getVersion(), mode);
        run.end(() -> {
            if (mode.equals("types")) {
                tour(host, port, run, arguments[3]);
                return;
            }
            if (mode.equals("defaults")) {
                LettuceDefaults.run(host, port, arguments[3], arguments[4]);
                return;
            }
            LettuceProgram program = new LettuceProgram(host, port, run);
            int count = Integer.parseInt(arguments[3]);
            if (mode.equals("transfer")) {
                program.transferAll(count, arguments[4]);
            } else {
                program.sellAll(count, arguments[4]);
            }
        });
    }

    @Override
    public boolean isAnswer(Exception error) {
        return error instanceof RedisCommandExecutionException;
    }

    @Override
    public void awaitServer() throws Exception {
        Run.untilAnswered(() -> {
            if (connection == null || !connection.isOpen()) {
                connection = client.connect();
            }
            connection.sync().ping();
        });
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
        RedisCommands<String, String> commands = connection.sync();
        commands.multi();
        commands.get("account:ada");
        commands.get("account:bob");
        TransactionResult balances = commands.exec();
        return Long.parseLong(balances.get(0)) + Long.parseLong(balances.get(1));
    }

    private Run.Outcome transfer(long total, String id, long amount, Run.State state) {
        RedisCommands<String, String> commands = connection.sync();
        commands.multi();
        try {
            commands.decrby("account:ada", amount);
            commands.incrby("account:bob", amount);
            commands.hset("ledger", id, Long.toString(amount));
            commands.rpush("transfers", id);
        } catch (RedisCommandExecutionException refused) {
            commands.discard();
            throw refused;
        }
        state.sent = true;
        TransactionResult answers = commands.exec();
        answers.forEach(LettuceProgram::throwIfWrong);
        Run.checkTransfer(id, total, answers.get(0), answers.get(1), (Boolean) answers.get(2) ? 1 : 0);
        return Run.Outcome.DONE;
    }

    private static void throwIfWrong(Object answer) {
        if (answer instanceof RedisException error) {
            throw error;
        }
    }

    private void sellAll(int count, String worker) throws Exception {
        awaitServer();
        for (int number = 0; number < count; number++) {
            String id = worker + "-" + number;
            run.untilDone(id, this, state -> sell(id, state));
        }
    }

    private Run.Outcome sell(String id, Run.State state) {
        RedisCommands<String, String> commands = connection.sync();
        commands.watch("stock:1");
        long stock = Long.parseLong(commands.get("stock:1"));
        Run.isTrue(stock > 0, "sold out");
        commands.multi();
        commands.set("stock:1", Long.toString(stock - 1));
        commands.incr("sold:1");
        commands.rpush("sales", id);
        state.sent = true;
        TransactionResult answers = commands.exec();
        if (answers.wasDiscarded()) {
            return Run.Outcome.CHANGED;
        }
        answers.forEach(LettuceProgram::throwIfWrong);
        return Run.Outcome.DONE;
    }

    private static void tour(String host, int port, Run run, String prefix) {
        for (ProtocolVersion protocol : List.of(ProtocolVersion.RESP2, ProtocolVersion.RESP3)) {
            RedisClient client = client(host, port, protocol);
            try (StatefulRedisConnection<String, String> connection = client.connect()) {
                new LettuceTypes(client, connection, prefix + ":" + protocol).tour(run, " in " + protocol);
            }
        }
        run.check("authentication", () -> {
            RedisClient stranger = client(host, port, ProtocolVersion.RESP3);
            try (StatefulRedisConnection<String, String> connection = stranger.connect()) {
                Run.fails(RedisCommandExecutionException.class, "WRONGPASS", () -> connection.sync().auth("nobody", "wrong"));
            }
        });
    }
}
