"""One of the Python libraries at work: NAME HOST PORT JOBS, or `worker` for Celery's. The last line it prints is JSON."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

NAME, HOST, PORT, JOBS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


def tell(done, of, twice, retried, began):
    seconds = time.time() - began
    told = {"done": done, "of": of, "twice": twice, "retried": retried, "a_second": round(done / seconds)}
    print(json.dumps({**told, "is_right": done == of and twice == 0 and retried}), flush=True)


def rq():
    import redis
    from rq import Queue, Retry, SimpleWorker

    import jobs

    connection = redis.Redis(host=HOST, port=PORT)
    queues = [Queue(name, connection=connection) for name in ("high", "default", "low")]
    began = time.time()
    all_jobs = [queues[at % 3].enqueue(jobs.add, at, 1) for at in range(JOBS)]
    flaky = queues[0].enqueue(jobs.fail_once, tempfile.mktemp(), retry=Retry(max=2))
    SimpleWorker(queues, connection=connection).work(burst=True, logging_level="CRITICAL")
    done = sum(job.return_value() == at + 1 for at, job in enumerate(all_jobs))
    tell(done, JOBS, 0, flaky.return_value() == "ok", began)


def celery():
    os.environ["QUEUE_SERVER"] = f"redis://{HOST}:{PORT}/0"
    from celery import chord

    import celery_app

    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--pool=threads", "-c", "4", "-l", "CRITICAL", "--without-mingle"],
        cwd=pathlib.Path(__file__).resolve().parent, stdout=sys.stderr,
    )
    try:
        began = time.time()
        results = [celery_app.add.delay(at, 1) for at in range(JOBS)]
        done = sum(result.get(timeout=60) == at + 1 for at, result in enumerate(results))
        retried = celery_app.flaky.delay(tempfile.mktemp()).get(timeout=30) == "ok"
        joined = chord([celery_app.add.s(at, at) for at in range(10)])(celery_app.total.s()).get(timeout=30) == 90
        tell(done, JOBS, 0, retried and joined, began)
    finally:
        worker.terminate()
        worker.wait(30)


def dramatiq():
    import dramatiq as library
    from dramatiq.brokers.redis import RedisBroker

    broker = RedisBroker(host=HOST, port=PORT)
    library.set_broker(broker)
    seen, lock, tries = {}, threading.Lock(), [0]

    @library.actor(max_retries=3, min_backoff=100)
    def job(number):
        with lock:
            seen[number] = seen.get(number, 0) + 1

    @library.actor(max_retries=3, min_backoff=100)
    def flaky():
        tries[0] += 1
        if tries[0] < 2:
            raise ValueError("once")

    began = time.time()
    for number in range(JOBS):
        job.send(number)
    flaky.send()
    job.send_with_options(args=(JOBS,), delay=300)
    worker = library.Worker(broker, worker_threads=4)
    worker.start()
    while (len(seen) < JOBS + 1 or tries[0] < 2) and time.time() - began < 120:
        time.sleep(0.05)
    tell(len(seen), JOBS + 1, sum(count > 1 for count in seen.values()), tries[0] == 2, began)
    worker.stop()


def locked(enter):
    """Four threads count under a lock."""
    count, each = [0], max(1, JOBS // 4)

    def work():
        lock = enter()
        for _ in range(each):
            with lock():
                now = count[0]
                time.sleep(0.0005)
                count[0] = now + 1

    began = time.time()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell(count[0], 4 * each, 0, True, began)


def python_redis_lock():
    import redis
    import redis_lock

    def enter():
        connection = redis.Redis(host=HOST, port=PORT)
        return lambda: redis_lock.Lock(connection, "of-queue-libraries", expire=10)

    locked(enter)


def walrus():
    from walrus import Database

    def enter():
        database = Database(host=HOST, port=PORT)
        return lambda: database.lock("of-queue-libraries-2", ttl=10_000)

    locked(enter)


{"rq": rq, "celery": celery, "dramatiq": dramatiq, "python-redis-lock": python_redis_lock, "walrus": walrus}[NAME]()
