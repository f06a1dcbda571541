-- What ordinary roles may do and see.
CREATE ROLE regress_lr_user;
CREATE ROLE regress_lr_other;
CREATE ROLE regress_lr_stats IN ROLE pg_read_all_stats;

SET ROLE regress_lr_user;
SELECT redis_lock('mine');
SELECT key, owner IS NOT NULL AS owner FROM redis_locks;
SELECT redis_unlock('mine');
\set VERBOSITY sqlstate
SELECT redis_force_unlock('mine');
SELECT redis_lock_stats_reset();
SHOW lockredis.url;
SHOW lockredis.password_file;
SET lockredis.key_prefix = 'x';
SET lockredis.connect_timeout = 1;
SET lockredis.lease = '1 min';
RESET lockredis.lease;
\set VERBOSITY default
SELECT name, setting FROM pg_settings WHERE name IN ('lockredis.url', 'lockredis.password_file');
SELECT address FROM redis_lock_status;
SELECT count(*) FROM redis_lock_stats;
RESET ROLE;

-- rows belong to the role that connected, not to the current one
SELECT redis_lock('whose');
SET ROLE regress_lr_other;
SELECT pid = pg_backend_pid() AS pid, key, owner, granted FROM redis_locks;
SET ROLE regress_lr_stats;
SELECT key, owner IS NOT NULL AS owner FROM redis_locks;
RESET ROLE;
SELECT redis_unlock('whose');

-- every function, table, view and column has a comment
SELECT p.oid::regprocedure FROM pg_proc p
  JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lockredis'
WHERE obj_description(p.oid, 'pg_proc') IS NULL;
SELECT c.oid::regclass FROM pg_class c
  JOIN pg_depend d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lockredis'
WHERE obj_description(c.oid, 'pg_class') IS NULL;

SELECT a.attrelid::regclass, a.attname FROM pg_attribute a
  JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'v')
  JOIN pg_depend d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lockredis'
WHERE a.attnum > 0 AND NOT a.attisdropped AND col_description(a.attrelid, a.attnum) IS NULL;
-- all but a look at another session are volatile; those that write a table are not for parallel plans at all
SELECT p.oid::regprocedure FROM pg_proc p
  JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lockredis'
WHERE p.provolatile <> 'v' OR p.proparallel <> 'r';

DROP ROLE regress_lr_user, regress_lr_other, regress_lr_stats;
