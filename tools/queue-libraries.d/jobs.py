"""The jobs of RQ."""

import os


def add(left, right):
    return left + right


def fail_once(path):
    if not os.path.exists(path):
        open(path, "w").close()
        raise ValueError("once")
    return "ok"
