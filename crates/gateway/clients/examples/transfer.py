# Moves 30 from ada to bob, in one transaction: transfer.py PORT
import sys
import redis

bank = redis.Redis(port=int(sys.argv[1]), decode_responses=True)
bank.mset({"account:ada": 100, "account:bob": 0})
with bank.pipeline(transaction=True) as transfer:
    transfer.decrby("account:ada", 30)
    transfer.incrby("account:bob", 30)
    print(transfer.execute())
