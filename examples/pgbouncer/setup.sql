-- The role that comes through PgBouncer in transaction mode: a session-level lock would
-- stay with a connection that others use, so it can take none.  For psql.

CREATE ROLE web LOGIN;
ALTER ROLE web SET lockredis.session_locks = off;

CREATE TABLE IF NOT EXISTS visit (page text PRIMARY KEY, count int NOT NULL);
GRANT SELECT, INSERT, UPDATE ON visit TO web;
