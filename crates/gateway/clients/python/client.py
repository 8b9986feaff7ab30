"""The client redis-py at work: transfers, sales under WATCH, and a tour of types. ../README.md has the contract."""

import json
import random
import sys
import time

import redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, ResponseError, TimeoutError, WatchError
from redis.retry import Retry

import defaults
from types_tour import tour

# A server that does not answer for so long is given up.
PATIENCE = 30.0

# Codes of errors after which nothing was done and trying again is right.
TRY_AGAIN = {"TRYAGAIN", "LOADING", "CLUSTERDOWN", "MASTERDOWN"}

LOST = (ConnectionError, TimeoutError)


class Run:
    """What is counted, and the connection."""

    def __init__(self, host, port, mode):
        # By default the client sends a pipeline again whose answer was lost. A transfer must not happen twice.
        self.client = redis.Redis(
            host=host, port=port, socket_timeout=PATIENCE, retry=Retry(NoBackoff(), 0), decode_responses=True
        )
        self.report = {
            "client": f"redis-py {redis.__version__}",
            "mode": mode,
            "committed": 0,
            "unknown": 0,
            "attempts": 0,
            "unknown_ids": [],
            "errors": [],
        }
        self.deadline = time.monotonic() + PATIENCE

    def committed(self):
        self.report["committed"] += 1
        self.deadline = time.monotonic() + PATIENCE

    def unknown(self, id):
        self.report["unknown"] += 1
        self.report["unknown_ids"].append(id)
        self.await_server()

    def attempt(self):
        if time.monotonic() > self.deadline:
            raise RuntimeError(f"no commit in {PATIENCE} s")
        self.report["attempts"] += 1

    def await_server(self):
        """Until the server answers again."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.client.ping()
                return
            except (*LOST, ResponseError) as error:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the server does not come back: {error}") from error
                time.sleep(0.02)


def code(error):
    return getattr(error, "status_code", None) or str(error).split(" ")[0]


def may_try_again(error):
    text = str(error)
    return code(error) in TRY_AGAIN or any(word in text for word in TRY_AGAIN)


def transfer_all(run, count, worker):
    total = read_total(run)
    for number in range(count):
        transfer(run, total, f"{worker}-{number}", random.randint(-10, 10))


def read_total(run):
    while True:
        run.await_server()
        try:
            with run.client.pipeline(transaction=True) as pipe:
                return sum(int(balance) for balance in pipe.get("account:ada").get("account:bob").execute())
        except LOST:
            continue


def transfer(run, total, id, amount):
    while True:
        run.attempt()
        try:
            with run.client.pipeline(transaction=True) as pipe:
                pipe.decrby("account:ada", amount)
                pipe.incrby("account:bob", amount)
                pipe.hset("ledger", id, amount)
                pipe.rpush("transfers", id)
                ada, bob, is_new, _ = pipe.execute()
        except LOST:
            return run.unknown(id)
        except ResponseError as error:
            if code(error) == "UNKNOWN":
                return run.unknown(id)
            if not may_try_again(error):
                raise
            time.sleep(0.02)
            continue
        if ada + bob != total:
            raise RuntimeError(f"{id} saw {ada} and {bob}, which make {ada + bob} and not {total}")
        if is_new != 1:
            raise RuntimeError(f"{id} was in the ledger before")
        return run.committed()


def sell_all(run, count, worker):
    for number in range(count):
        sell(run, f"{worker}-{number}")


def sell(run, id):
    """The loop that the client's own documentation has."""
    with run.client.pipeline() as pipe:
        while True:
            run.attempt()
            sent = False
            try:
                pipe.watch("stock:1")
                stock = int(pipe.get("stock:1"))
                if stock < 1:
                    raise RuntimeError("sold out")
                pipe.multi()
                pipe.set("stock:1", stock - 1)
                pipe.incr("sold:1")
                pipe.rpush("sales", id)
                sent = True
                pipe.execute()
                return run.committed()
            except WatchError as error:
                # The client says this of a lost connection, too.
                if isinstance(error.__context__, LOST):
                    if sent:
                        return run.unknown(id)
                    run.await_server()
            except LOST:
                if sent:
                    return run.unknown(id)
                pipe.reset()
                run.await_server()
            except ResponseError as error:
                if code(error) == "UNKNOWN":
                    return run.unknown(id)
                if not may_try_again(error):
                    raise
                pipe.reset()
                time.sleep(0.02)


def give_all(run, host, port, count, worker):
    """Transfers by CLARET.DO, each given twice with the same id, to any node of a cluster."""
    cluster = redis.RedisCluster(host=host, port=port, socket_timeout=PATIENCE, decode_responses=True)

    def give(*words):
        run.attempt()
        while True:
            try:
                # The client wants the first word as text, and a node: the command has no keys.
                node = random.choice(cluster.get_primaries())
                return cluster.execute_command("CLARET.DO", *map(str, words), target_nodes=node)
            except ResponseError as error:
                if not may_try_again(error):
                    raise
                time.sleep(0.02)

    total = sum(int(balance) for balance in give(2, "GET", "account:ada", 2, "GET", "account:bob"))
    for number in range(count):
        id, amount = f"{worker}-{number}", random.randint(-10, 10)
        operations = [3, "INCRBY.RETURNING", "account:ada", -amount, 3, "INCRBY.RETURNING", "account:bob", amount]
        operations += [4, "HSET", "ledger", id, amount, 3, "RPUSH", "transfers", id]
        first, again = (give("ONCE", id, *operations) for _ in range(2))
        if first != again:
            raise RuntimeError(f"{id} was answered {first} and then {again}")
        if first[0] + first[1] != total:
            raise RuntimeError(f"{id} saw {first[0]} and {first[1]}, which do not make {total}")
        run.committed()


def main(arguments):
    if len(arguments) == 5 and arguments[2] == "defaults" and arguments[3] in defaults.KINDS:
        return defaults.main(arguments[0], int(arguments[1]), arguments[3], arguments[4])
    if len(arguments) < 4 or arguments[2] not in ("transfer", "watch", "errands", "types"):
        sys.exit(
            "usage: client.py HOST PORT (transfer | watch | errands) COUNT WORKER\n       client.py HOST PORT types PREFIX\n"
            "       client.py HOST PORT defaults (multi | watch | pipeline) PREFIX"
        )
    host, port, mode = arguments[0], int(arguments[1]), arguments[2]
    run = Run(host, port, mode)
    try:
        if mode == "types":
            tour(host, port, arguments[3], run.report)
        elif mode == "errands":
            give_all(run, host, port, int(arguments[3]), arguments[4])
        else:
            work = transfer_all if mode == "transfer" else sell_all
            work(run, int(arguments[3]), arguments[4])
    except Exception as error:
        run.report["errors"].append(f"{type(error).__name__}: {error}")
    print(json.dumps(run.report))
    sys.exit(1 if run.report["errors"] else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
