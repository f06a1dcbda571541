-- Run by the image in the database of a new cluster.
CREATE SCHEMA lockredis;
GRANT USAGE ON SCHEMA lockredis TO PUBLIC;
CREATE EXTENSION lockredis SCHEMA lockredis;
SELECT format('ALTER DATABASE %I SET search_path = "$user", public, lockredis', current_database())
\gexec
