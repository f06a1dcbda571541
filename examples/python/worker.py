"""Builds a report, while no other worker does.  It locks with redis-py, and writes with
psycopg.  A session that calls redis_token_lock('python-report') in SQL takes the same lock.

The variables of libpq and REDIS_URL say where the servers are, LEASE how many seconds the
lock lasts.
"""

import os

import psycopg
import redis

client = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379"))
lock = client.lock("python-report", timeout=int(os.environ.get("LEASE", 60)))

# Autocommit, since the lock has to be released after the commit.  Otherwise psycopg begins a
# transaction by itself, which lasts as long as the lock.
with psycopg.connect(autocommit=True) as connection:
    if not lock.acquire(blocking=False):
        print("busy", flush=True)
        lock.acquire()
    try:
        with connection.transaction():
            connection.execute("INSERT INTO service_report (made_by) VALUES ('python')")
            # It is not renewed: do not commit what took too long.  (redis-py raises an
            # error if the lock is not ours any more, and the transaction is rolled back.)
            lock.reacquire()
        print("built", flush=True)
    finally:
        lock.release()
