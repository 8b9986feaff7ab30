// What the programs of both clients share: counting, patience, and the line that is printed. ../README.md has the contract.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;

final class Run {
    /** A server that does not answer for so long is given up. */
    static final int PATIENCE_MS = 30_000;

    /** Words of errors after which nothing was done and trying again is right. */
    private static final List<String> TRY_AGAIN = List.of("TRYAGAIN", "LOADING", "CLUSTERDOWN", "MASTERDOWN");

    private final String client;
    private final String mode;
    private final List<String> unknownIds = new ArrayList<>();
    private final List<String> errors = new ArrayList<>();
    private int committed;
    private int attempts;
    /** Counted from the first attempt: to start takes long on a machine with other things to do. */
    private long deadline;

    Run(String client, String mode) {
        this.client = client;
        this.mode = mode;
    }

    /** What the answers show to be wrong. */
    static final class Wrong extends RuntimeException {
        Wrong(String message) {
            super(message);
        }
    }

    /** What became of one attempt. */
    enum Outcome { DONE, CHANGED }

    /** One attempt; says by {@link State} whether EXEC may have gone out. */
    interface Attempt {
        Outcome go(State state) throws Exception;
    }

    static final class State {
        boolean sent;
    }

    /** What a program knows of its client's errors. */
    interface Errors {
        /** Whether the server answered this, as opposed to a connection that was lost. */
        boolean isAnswer(Exception error);

        void awaitServer() throws Exception;
    }

    interface Work {
        void go() throws Exception;
    }

    private static long deadline() {
        return System.nanoTime() + PATIENCE_MS * 1_000_000L;
    }

    /** One piece of work until it is done or nobody knows. */
    void untilDone(String id, Errors errors, Attempt attempt) throws Exception {
        if (attempts == 0) {
            deadline = deadline();
        }
        while (true) {
            if (System.nanoTime() > deadline) {
                throw new Wrong("no commit in " + PATIENCE_MS + " ms");
            }
            attempts++;
            State state = new State();
            try {
                if (attempt.go(state) == Outcome.DONE) {
                    committed++;
                    deadline = deadline();
                    return;
                }
            } catch (Wrong wrong) {
                throw wrong;
            } catch (Exception error) {
                if (!errors.isAnswer(error)) {
                    errors.awaitServer();
                    if (state.sent) {
                        unknownIds.add(id);
                        return;
                    }
                } else if (error.getMessage().startsWith("UNKNOWN")) {
                    unknownIds.add(id);
                    return;
                } else if (TRY_AGAIN.stream().noneMatch(error.getMessage()::contains)) {
                    throw error;
                } else {
                    Thread.sleep(20);
                }
            }
        }
    }

    interface Reading<T> {
        T go() throws Exception;
    }

    /** What reading answers, however often the connection is lost meanwhile. */
    static <T> T untilRead(Errors errors, Reading<T> reading) throws Exception {
        while (true) {
            errors.awaitServer();
            try {
                return reading.go();
            } catch (Exception error) {
                if (errors.isAnswer(error)) {
                    throw error;
                }
            }
        }
    }

    static void untilAnswered(Work ping) throws Exception {
        long deadline = deadline();
        while (true) {
            try {
                ping.go();
                return;
            } catch (Exception error) {
                if (System.nanoTime() > deadline) {
                    throw new Wrong("the server does not come back: " + error.getMessage());
                }
                Thread.sleep(20);
            }
        }
    }

    static void checkTransfer(String id, long total, long ada, long bob, long isNew) {
        if (ada + bob != total) {
            throw new Wrong(id + " saw " + ada + " and " + bob + ", which do not make " + total);
        }
        if (isNew != 1) {
            throw new Wrong(id + " was in the ledger before");
        }
    }

    static long amount() {
        return ThreadLocalRandom.current().nextLong(-10, 11);
    }

    /** One check of the tour. */
    void check(String name, Work work) {
        attempts++;
        try {
            work.go();
            committed++;
        } catch (Exception | AssertionError error) {
            errors.add(name + ": " + error);
        }
    }

    static void same(Object expected, Object found) {
        if (!Objects.equals(expected, found)) {
            throw new Wrong(found + " instead of " + expected);
        }
    }

    static void isTrue(boolean holds, String what) {
        if (!holds) {
            throw new Wrong(what);
        }
    }

    /** The work is to fail with this kind of error, with these words. */
    static void fails(Class<? extends Exception> kind, String words, Work work) throws Exception {
        try {
            work.go();
        } catch (Exception error) {
            isTrue(kind.isInstance(error) && error.getMessage().contains(words), error + " instead of " + words);
            return;
        }
        throw new Wrong("no error where " + words + " was expected");
    }

    /** Bytes of every kind, with what looks like an answer of the protocol. */
    static byte[] binary() {
        byte[] bytes = Arrays.copyOf(new byte[0], 263);
        for (int at = 0; at < 256; at++) {
            bytes[at] = (byte) at;
        }
        byte[] answer = "\r\n$-1\r\n".getBytes();
        System.arraycopy(answer, 0, bytes, 256, answer.length);
        return bytes;
    }

    private static String quoted(String text) {
        StringBuilder json = new StringBuilder("\"");
        for (char it : text.toCharArray()) {
            json.append(it == '"' || it == '\\' ? "\\" + it : it < ' ' ? String.format("\\u%04x", (int) it) : String.valueOf(it));
        }
        return json.append('"').toString();
    }

    private static String list(List<String> texts) {
        return texts.stream().map(Run::quoted).collect(Collectors.joining(",", "[", "]"));
    }

    /** Does the work, prints the line and ends the program. */
    void end(Work work) {
        try {
            work.go();
        } catch (Exception error) {
            errors.add(error.toString());
        }
        System.out.printf(
            "{\"client\":%s,\"mode\":%s,\"committed\":%d,\"unknown\":%d,\"attempts\":%d,\"unknown_ids\":%s,\"errors\":%s}%n",
            quoted(client), quoted(mode), committed, unknownIds.size(), attempts, list(unknownIds), list(errors));
        System.exit(errors.isEmpty() ? 0 : 1);
    }

    /** Says what the settings are, and when it is told to, what came of the work; then the program ends. */
    static void byDefault(String client, Map<String, String> settings, Reading<Object> work) throws Exception {
        String shown = settings.entrySet().stream()
            .map(it -> quoted(it.getKey()) + ":" + quoted(it.getValue())).collect(Collectors.joining(",", "{", "}"));
        System.out.printf("{\"client\":%s,\"settings\":%s}%n", quoted(client), shown);
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        try {
            System.out.printf("{\"ok\":true,\"heard\":%s}%n", quoted(String.valueOf(work.go())));
        } catch (Exception error) {
            String heard = error.getClass().getSimpleName() + ": " + error.getMessage();
            System.out.printf("{\"ok\":false,\"heard\":%s}%n", quoted(heard));
        }
        System.exit(0);
    }

    static void checkArguments(String[] arguments) {
        boolean isWork = arguments.length >= 5 && List.of("transfer", "watch", "defaults").contains(arguments[2]);
        if (!isWork && !(arguments.length >= 4 && arguments[2].equals("types"))) {
            System.err.println("usage: PROGRAM HOST PORT (transfer | watch) COUNT WORKER, PROGRAM HOST PORT types PREFIX,"
                + " or PROGRAM HOST PORT defaults (multi | watch | pipeline) PREFIX");
            System.exit(2);
        }
    }
}
