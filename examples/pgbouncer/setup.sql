-- The role that comes through PgBouncer in transaction mode: a session-level lock would
-- stay with a connection that others use, so it can take none.  For psql.

SELECT 'CREATE ROLE web LOGIN' WHERE to_regrole('web') IS NULL \gexec
ALTER ROLE web PASSWORD 'web';
ALTER ROLE web SET lockredis.session_locks = off;

CREATE TABLE IF NOT EXISTS visit (page text PRIMARY KEY, count int NOT NULL);
INSERT INTO visit VALUES ('/index.html', 0) ON CONFLICT DO NOTHING;
GRANT SELECT, INSERT, UPDATE ON visit TO web;
