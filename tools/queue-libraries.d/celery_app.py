"""The tasks of Celery, with broker and backend where QUEUE_SERVER says."""

import os

from celery import Celery

app = Celery("celery_app", broker=os.environ["QUEUE_SERVER"], backend=os.environ["QUEUE_SERVER"])


@app.task
def add(left, right):
    return left + right


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=3)
def flaky(self, path):
    if not os.path.exists(path):
        open(path, "w").close()
        raise self.retry(countdown=0.2)
    return "ok"
