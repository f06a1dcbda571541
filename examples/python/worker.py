"""A worker that builds a report, one of all workers at a time: the lock is redis-py's, the
database psycopg's.  Whoever says redis_token_lock('report') in SQL is one of them.

    worker.py DSN REDIS_URL [NAME OF THE LOCK]
"""

import sys

import psycopg
import redis

dsn, redis_url, *rest = sys.argv[1:]
name = rest[0] if rest else "report"
client = redis.Redis.from_url(redis_url)

# Autocommit: a lock is to be given back after the commit, and a transaction that psycopg
# has begun by itself would last as long as the lock.
with psycopg.connect(dsn, autocommit=True) as connection:
    lock = client.lock(name, timeout=60)
    if not lock.acquire(blocking=False):
        print("busy", flush=True)
        # redis-py's locked() asks with GET, which a lock of redis_lock, a hash, refuses.
        try:
            print("a token lock" if lock.locked() else "free again", flush=True)
        except redis.ResponseError:
            print("a lock of another kind", flush=True)
    lock.acquire()
    try:
        with connection.transaction():
            connection.execute("CALL build_report(%s)", ("python",))
            # It is not renewed: do not commit what took too long.  (redis-py raises an
            # error if the lock is not ours any more, and the transaction is rolled back.)
            lock.reacquire()
        print("built", flush=True)
    finally:
        lock.release()
