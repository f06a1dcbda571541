-- A job that pg_cron starts on each of many servers, and one of them runs.  For psql,
-- on each server, in the database that cron.database_name names.

CREATE EXTENSION IF NOT EXISTS pg_cron;

-- What the job is about
CREATE TABLE IF NOT EXISTS sale (amount int);
CREATE TABLE IF NOT EXISTS report (at timestamptz, total bigint);

CREATE OR REPLACE PROCEDURE build_report()
LANGUAGE sql AS $$
    INSERT INTO report SELECT now(), coalesce(sum(amount), 0) FROM sale;
$$;

-- cron.job_run_details says "succeeded" also where the job was skipped, because another
-- server had it.  Which it was stands here; one that failed is "failed" there.
CREATE TABLE IF NOT EXISTS job_run (
    job text,
    at timestamptz DEFAULT clock_timestamp(),
    ran boolean
);

CREATE OR REPLACE PROCEDURE run_job(job text, command text, hold_at_least interval DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    ran boolean;
BEGIN
    CALL redis_with_lock(job, command, hold_at_least => hold_at_least, ran => ran);
    INSERT INTO job_run (job, ran) VALUES (job, ran);
END $$;

-- Nobody else runs it within ten minutes of its start, however their clocks differ.
SELECT cron.schedule('nightly-report', '0 3 * * *',
    $$CALL run_job('nightly-report', 'CALL build_report()', '10 min')$$);
