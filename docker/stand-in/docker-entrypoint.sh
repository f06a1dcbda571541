#!/bin/sh
#
# What the official image does at its first start, and at each.
#
set -e

as_postgres='setpriv --reuid=postgres --regid=postgres --init-groups'
mkdir -p "$PGDATA"
chown postgres "$PGDATA"
chmod 700 "$PGDATA"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	echo "$POSTGRES_PASSWORD" >/tmp/password
	chown postgres /tmp/password
	$as_postgres initdb -U postgres --pwfile=/tmp/password --auth-host=scram-sha-256
	rm /tmp/password
	echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
	# The settings of the command, without its first word
	$as_postgres pg_ctl -w -o "$(shift; echo "$*") -c listen_addresses=''" start
	for file in /docker-entrypoint-initdb.d/*.sql; do
		psql -v ON_ERROR_STOP=1 --no-password --no-psqlrc -U postgres -f "$file"
	done
	$as_postgres pg_ctl -m fast -w stop
fi
exec $as_postgres "$@"
