# Copyright (c) 2026, lockredis contributors

"""redis-py as a service would use it, told line by line what to do; see
test/perl/LockRedis/TokenClient.pm."""

import sys

import redis
from redis.exceptions import LockNotOwnedError

client = redis.Redis(host="127.0.0.1", port=int(sys.argv[1]))


def known(key, token):
    """One of somebody else, as far as its token says"""
    lock = client.lock(key, timeout=3600)
    lock.local.token = token.encode()
    return lock


def take(key, token, lease, wait):
    lock = client.lock(key, timeout=int(lease) / 1000, sleep=0.05)
    took = lock.acquire(
        blocking=int(wait) > 0,
        blocking_timeout=int(wait) / 1000 if int(wait) > 0 else None,
        token=None if token == "-" else token,
    )
    return lock.local.token.decode() if took else None


def extend(key, token, lease):
    return "yes" if known(key, token).extend(int(lease) / 1000, replace_ttl=True) else None


def release(key, token):
    known(key, token).release()
    return "yes"


def owned(key, token):
    return "yes" if known(key, token).owned() else None


VERBS = {"take": take, "extend": extend, "release": release, "owned": owned}

for line in sys.stdin:
    verb, *args = line.split()
    try:
        result = VERBS[verb](*args)
        said = "no" if result is None else "ok " + result
    except LockNotOwnedError:
        said = "no"
    except Exception as error:
        said = "error " + repr(error).replace("\n", " ")
    print(said, flush=True)
