-- One of several servers does what only one may do; another one takes over when its
-- session, its server or its way to Redis fails.  For psql.

CREATE TABLE IF NOT EXISTS led (at timestamptz, pid int);

-- It never returns: it waits until it leads, and leads until its session ends.  It may wait
-- for days, so it waits in a procedure, without a snapshot: SELECT redis_lock() would keep
-- vacuum from removing rows all the while.  A leader that lost the lock is ended by on_lost, or
-- by its next COMMIT; it should be started again by whatever started it.
CREATE OR REPLACE PROCEDURE run_as_leader(service text, pause interval DEFAULT '1 s')
LANGUAGE plpgsql AS $$
BEGIN
    SET lockredis.on_lost = 'terminate';
    CALL redis_await_lock('leader:' || service);
    LOOP
        -- The work, in a transaction that cannot commit when the lock was lost
        INSERT INTO led VALUES (clock_timestamp(), pg_backend_pid());
        COMMIT;
        PERFORM pg_sleep(extract(epoch FROM pause));
    END LOOP;
END $$;
