"""What redis-py does by default: one transaction, one loop of WATCH or one pipeline, as its documentation has it. ../README.md has the
contract."""

import inspect
import json
import sys

import redis
from redis.exceptions import WatchError


def transaction(client, x, y):
    with client.pipeline() as pipe:
        return pipe.incr(x).incr(y).execute()


def pipeline(client, x, y):
    with client.pipeline(transaction=False) as pipe:
        return pipe.incr(x).incr(y).execute()


def watch(client, x, y):
    """The loop of the documentation."""
    with client.pipeline() as pipe:
        while True:
            try:
                pipe.watch(x)
                value = int(pipe.get(x) or 0)
                pipe.multi()
                pipe.set(x, value + 1)
                pipe.incr(y)
                return pipe.execute()
            except WatchError:
                continue


KINDS = {"multi": transaction, "watch": watch, "pipeline": pipeline}


def settings(client):
    """The defaults as the installed package has them."""
    connection = client.connection_pool.make_connection()
    retry = connection.retry
    found = {name: repr(getattr(connection, name, "none")) for name in ("socket_timeout", "socket_connect_timeout")}
    found["protocol"] = repr(getattr(connection, "protocol", "none"))
    found["retries"] = repr(getattr(retry, "_retries", "none"))
    found["backoff"] = type(getattr(retry, "_backoff", None)).__name__
    found["retries_on"] = " ".join(error.__name__ for error in getattr(retry, "_supported_errors", ()))
    found["of the client"] = repr(inspect.signature(redis.Redis.__init__).parameters["retry"].default).split(" object")[0]
    return found


def main(host, port, kind, prefix):
    client = redis.Redis(host=host, port=port)
    client.ping()
    print(json.dumps({"client": f"redis-py {redis.__version__}", "settings": settings(client)}), flush=True)
    sys.stdin.readline()
    try:
        outcome = {"ok": True, "heard": str(KINDS[kind](client, f"{prefix}:x", f"{prefix}:y"))}
    except Exception as error:
        outcome = {"ok": False, "heard": f"{type(error).__name__}: {error}"}
    print(json.dumps(outcome), flush=True)
