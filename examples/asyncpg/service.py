"""Builds a report, while no other service does: one connection of asyncpg's pool holds the
lock.

The variables of libpq say where PostgreSQL is.
"""

import asyncio

import asyncpg

KEY = "asyncpg-report"


async def give_back(connection):
    """For a connection that is returned to the pool: asyncpg's own reset keeps Redis locks, and
    after a lost one the next user could not commit."""
    await connection.reset()
    await connection.execute("SELECT redis_unlock_all()")


async def build_report(pool):
    async with pool.acquire() as connection:
        if not await connection.fetchval("SELECT redis_try_lock($1)", KEY):
            print("busy", flush=True)
            await connection.execute("SELECT redis_lock($1)", KEY)
        async with connection.transaction():
            await connection.execute("INSERT INTO service_report (made_by) VALUES ('asyncpg')")
        print("built", flush=True)


async def main():
    async with asyncpg.create_pool(min_size=1, reset=give_back) as pool:
        await build_report(pool)


asyncio.run(main())
