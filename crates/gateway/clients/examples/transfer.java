// Moves 30 from ada to bob, in one transaction: Transfer PORT
import redis.clients.jedis.RedisClient;

class Transfer {
    public static void main(String[] arguments) {
        try (var bank = RedisClient.create("127.0.0.1", Integer.parseInt(arguments[0]))) {
            bank.mset("account:ada", "100", "account:bob", "0");
            try (var transfer = bank.multi()) {
                transfer.decrBy("account:ada", 30);
                transfer.incrBy("account:bob", 30);
                System.out.println(transfer.exec());
            }
        }
    }
}
