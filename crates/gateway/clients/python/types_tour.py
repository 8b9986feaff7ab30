"""What redis-py makes of answers, in its own types. Each check is a function of the connection and a prefix of keys."""

import threading
import time

import redis
from redis.exceptions import AuthenticationError, NoScriptError, ResponseError

BINARY = bytes(range(256)) + b"\r\n$-1\r\n"


def same(what, expected):
    if what != expected or type(what) is not type(expected):
        raise AssertionError(f"{what!r} instead of {expected!r}")


def strings(r, p):
    same(r.set(f"{p}:s", "a"), True)
    same(r.append(f"{p}:s", "bc"), 3)
    same(r.get(f"{p}:s"), b"abc")
    same(r.getrange(f"{p}:s", 1, 2), b"bc")
    same(r.set(f"{p}:s", "other", nx=True), None)
    same(r.set(f"{p}:s", "new", get=True), b"abc")
    same(r.mset({f"{p}:m1": "1", f"{p}:m2": "2", f"{p}:m3": "3"}), True)
    same(r.mget(f"{p}:m1", f"{p}:absent", f"{p}:m3"), [b"1", None, b"3"])
    same(r.exists(f"{p}:m1", f"{p}:m2", f"{p}:absent"), 2)
    same(r.delete(f"{p}:m1", f"{p}:m2", f"{p}:m3"), 3)


def integers(r, p):
    same(r.incr(f"{p}:i"), 1)
    same(r.incrby(f"{p}:i", 41), 42)
    same(r.decr(f"{p}:i"), 41)
    same(r.incrbyfloat(f"{p}:f", 1.5), 1.5)
    r.set(f"{p}:big", 2**63 - 1)
    try:
        r.incr(f"{p}:big")
        raise AssertionError("no overflow")
    except ResponseError as error:
        if "overflow" not in str(error):
            raise


def hashes(r, p):
    same(r.hset(f"{p}:h", mapping={"a": "1", "b": "2"}), 2)
    same(r.hgetall(f"{p}:h"), {b"a": b"1", b"b": b"2"})
    same(r.hmget(f"{p}:h", "b", "absent"), [b"2", None])
    same(r.hincrby(f"{p}:h", "a", 4), 5)
    same(r.hexists(f"{p}:h", "a"), True)
    same(r.hdel(f"{p}:h", "a", "absent"), 1)
    same(r.hlen(f"{p}:h"), 1)
    same(r.hgetall(f"{p}:absent"), {})


def sets(r, p):
    same(r.sadd(f"{p}:set", "a", "b", "c"), 3)
    same(r.smembers(f"{p}:set"), {b"a", b"b", b"c"})
    if not r.sismember(f"{p}:set", "a") or r.sismember(f"{p}:set", "z"):
        raise AssertionError("SISMEMBER")
    r.sadd(f"{p}:set2", "b", "c", "d")
    same(set(r.sinter(f"{p}:set", f"{p}:set2")), {b"b", b"c"})
    same(set(r.sunion(f"{p}:set", f"{p}:set2")), {b"a", b"b", b"c", b"d"})
    same(r.srem(f"{p}:set", "a"), 1)


def sorted_sets(r, p):
    same(r.zadd(f"{p}:z", {"one": 1, "half": 0.5, "much": float("inf")}), 3)
    pairs = [tuple(pair) for pair in r.zrange(f"{p}:z", 0, -1, withscores=True)]
    same(pairs, [(b"half", 0.5), (b"one", 1.0), (b"much", float("inf"))])
    same(r.zscore(f"{p}:z", "half"), 0.5)
    same(r.zscore(f"{p}:z", "absent"), None)
    same(r.zincrby(f"{p}:z", 0.25, "half"), 0.75)
    same(r.zrank(f"{p}:z", "one"), 1)
    same(r.zcount(f"{p}:z", "-inf", "(1"), 1)


def lists(r, p):
    same(r.rpush(f"{p}:l", "a", "b", "c"), 3)
    same(r.lrange(f"{p}:l", 0, -1), [b"a", b"b", b"c"])
    same(r.lindex(f"{p}:l", -1), b"c")
    same(r.lpop(f"{p}:l"), b"a")
    same(r.lmove(f"{p}:l", f"{p}:l2", "LEFT", "RIGHT"), b"b")
    same(r.llen(f"{p}:l"), 1)


def nils(r, p):
    for what in (r.get(f"{p}:absent"), r.hget(f"{p}:absent", "f"), r.lpop(f"{p}:absent"), r.lindex(f"{p}:absent", 0)):
        same(what, None)
    same(r.ttl(f"{p}:absent"), -2)
    same(r.lrange(f"{p}:absent", 0, -1), [])


def errors(r, p):
    r.rpush(f"{p}:list", "a")
    for wrong in (lambda: r.incr(f"{p}:list"), lambda: r.execute_command("NOSUCHCOMMAND"), lambda: r.execute_command("GET")):
        try:
            wrong()
        except ResponseError:
            continue
        raise AssertionError("no error")
    try:
        r.get(f"{p}:list")
    except ResponseError as error:
        if not str(error).startswith("WRONGTYPE"):
            raise


def pipelines(r, p):
    pipe = r.pipeline(transaction=False)
    for number in range(1000):
        pipe.set(f"{p}:p:{number}", number)
    same(pipe.execute(), [True] * 1000)
    for number in range(1000):
        pipe.get(f"{p}:p:{number}")
    same(pipe.execute(), [str(number).encode() for number in range(1000)])
    pipe.incr(f"{p}:n").lpush(f"{p}:n", "a").incr(f"{p}:n")
    one, error, two = pipe.execute(raise_on_error=False)
    same((one, two), (1, 2))
    if not isinstance(error, ResponseError):
        raise AssertionError(f"{error!r} is no error")


def binary(r, p):
    key = p.encode() + b":\x00\xff\r\n"
    r.set(key, BINARY)
    same(r.get(key), BINARY)
    r.hset(f"{p}:hb", BINARY, BINARY)
    same(r.hgetall(f"{p}:hb"), {BINARY: BINARY})
    long = b"x" * 1_000_000
    r.set(f"{p}:long", long)
    same(r.get(f"{p}:long"), long)


def blocking_pop(r, p):
    began = time.monotonic()
    same(r.blpop([f"{p}:queue"], timeout=0.2), None)
    if not 0.1 < time.monotonic() - began < 5:
        raise AssertionError("the timeout of BLPOP")
    threading.Timer(0.2, lambda: r.rpush(f"{p}:queue", "job")).start()
    key, value = r.blpop([f"{p}:queue"], timeout=10)
    same((key, value), (f"{p}:queue".encode(), b"job"))


def publish_and_subscribe(r, p):
    with r.pubsub() as subscription:
        subscription.subscribe(f"{p}:news")
        same(subscription.get_message(timeout=5)["type"], "subscribe")
        same(r.publish(f"{p}:news", "hello"), 1)
        message = subscription.get_message(timeout=5)
        same((message["type"], message["data"]), ("message", b"hello"))
        subscription.unsubscribe()


def scan(r, p):
    names = {f"{p}:scan:{number}".encode() for number in range(1000)}
    pipe = r.pipeline(transaction=False)
    for name in names:
        pipe.set(name, 1)
    pipe.execute()
    same(set(r.scan_iter(match=f"{p}:scan:*", count=100)), names)
    r.hset(f"{p}:hscan", mapping={str(number): number for number in range(1000)})
    same(len(dict(r.hscan_iter(f"{p}:hscan", count=50))), 1000)


def scripts(r, p):
    script = r.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1]) -- " + p)
    try:
        r.evalsha(script.sha, 1, f"{p}:script", 1)
        raise AssertionError("the script was there")
    except NoScriptError:
        pass
    same(script(keys=[f"{p}:script"], args=[5]), 5)
    same(r.evalsha(script.sha, 1, f"{p}:script", 2), 7)
    same(r.eval("return {1, 'two', false}", 1, f"{p}:script"), [1, b"two", None])


def expiry(r, p):
    same(r.set(f"{p}:e", "a", px=150), True)
    if not 0 < r.pttl(f"{p}:e") <= 150:
        raise AssertionError("PTTL")
    same(r.expire(f"{p}:absent", 10), False)
    r.set(f"{p}:k", "a", ex=100)
    same(r.persist(f"{p}:k"), True)
    same(r.ttl(f"{p}:k"), -1)
    time.sleep(0.4)
    same(r.get(f"{p}:e"), None)


CHECKS = [
    strings, integers, hashes, sets, sorted_sets, lists, nils, errors, pipelines, binary, blocking_pop,
    publish_and_subscribe, scan, scripts, expiry,
]


def authentication(host, port):
    try:
        redis.Redis(host=host, port=port, username="nobody", password="wrong").ping()
    except AuthenticationError:
        return
    raise AssertionError("a wrong password is none")


def run_check(report, name, check):
    report["attempts"] += 1
    try:
        check()
        report["committed"] += 1
    except Exception as error:
        report["errors"].append(f"{name}: {type(error).__name__}: {error}")


def tour(host, port, prefix, report):
    for protocol in (2, 3):
        client = redis.Redis(host=host, port=port, protocol=protocol, socket_timeout=30)
        for check in CHECKS:
            name = f"{check.__name__} in RESP{protocol}"
            run_check(report, name, lambda: check(client, f"{prefix}:{protocol}"))
    run_check(report, "authentication", lambda: authentication(host, port))
