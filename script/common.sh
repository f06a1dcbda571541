# shellcheck shell=bash
#
# common.sh: what test, demo and bench share; to be sourced by bash.
#
# prepare makes a directory for one run: a copy of the source tree, a private
# copy of the PostgreSQL installation with lockredis in it, room for data and
# sockets.  Neither the clone nor the real installation is changed.  Called by
# root, everything runs as an unprivileged user, because PostgreSQL insists.
#
#   top       the clone
#   run       the directory of this run ('' before prepare)
#   bindir    programs of the private PostgreSQL
#   needs     what script/bootstrap is to install
#

needs=(test)
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
run='' bindir='' as_user=() run_path=''

# copy_tree FROM TO: the sources of a clone, without what was built there.  Tests that run in
# FROM make and remove directories of their own meanwhile: that is tar's status 1.
copy_tree()
{
	{ tar -C "$1" --warning=no-file-changed --warning=no-file-removed \
		--exclude=./.git --exclude='tmp_check*' --exclude='*.o' \
		--exclude='*.bc' --exclude=./lockredis.so --exclude='./test/bench/*.so' \
		--exclude=./results --exclude=__pycache__ \
		--exclude='./regression.*' --exclude=./src/kinds/lua_ids.h \
		--exclude=./src/store/redis/lua_texts.h -cf - . || [ $? -eq 1 ]; } |
		tar -C "$2" --no-same-owner -xf -
}

# prepare NAME [MAKE-ARGUMENT ...]: status 1, with make's output, if the build
# fails.  Installs what "needs" says, the arguments of script/bootstrap.
prepare()
{
	local name=$1 pg_config tool user=postgres
	shift

	# Often called as a condition, where "set -e" does nothing.
	"$top/script/bootstrap" "${needs[@]}" || return 1
	export PG_CONFIG=${PG_CONFIG:-pg_config}

	# A short name: it is part of the names of sockets.
	run=$(mktemp -d "/tmp/lockredis-$name.XXXXXX") || return 1
	mkdir "$run/src" "$run/tmp" "$run/home"
	copy_tree "$top" "$run/src" || return 1
	pg_config=$("$top/script/private-postgres" "$run/postgres") || return 1
	bindir=$(dirname "$pg_config")

	run_path=$bindir:$PATH
	if [ "$(id -u)" -eq 0 ]; then
		id "$user" >/dev/null 2>&1 || user=nobody
		as_user=(runuser -u "$user" --)
		chown -R "$user" "$run"
		# Without root's own directories, which the user cannot read.
		run_path=$bindir:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin
		run_path=$run_path:/sbin:/bin
		for tool in java mvn redis-server; do
			tool=$(command -v "$tool") || continue
			[[ :$run_path: == *:"$(dirname "$tool")":* ]] ||
				run_path=$run_path:$(dirname "$tool")
		done
	fi

	if ! in_run make -s -j"$(nproc)" "$@" all >"$run/build.log" 2>&1 ||
		! in_run make -s "$@" install >>"$run/build.log" 2>&1; then
		cat "$run/build.log"
		return 1
	fi
}

# Replaces the subshell it is called in by a command that sees the world of this
# run: PG* and locale of the caller are none of its business.
exec_in_run()
{
	cd "$run/src"
	unset MAKEFLAGS MAKELEVEL PROVE_TESTS PERL5OPT "${!PG@}"
	exec env HOME="$run/home" TMPDIR="$run/tmp" PATH="$run_path" LC_ALL=C \
		PG_CONFIG="$bindir/pg_config" LOCKREDIS_RUN="$run" \
		PERL5LIB="$run/src/test/perl" \
		${as_user[@]+"${as_user[@]}"} "$@"
}

in_run()
{
	(exec_in_run "$@")
}

# A Perl program that uses the test modules outside of prove
perl_in_run()
{
	local pgxs

	pgxs=$(dirname "$("$bindir/pg_config" --pgxs)")/../..
	in_run mkdir -p "$run/perl"
	in_run env TESTDIR="$run/perl" PGPORT=65432 \
		PG_REGRESS="$pgxs/src/test/regress/pg_regress" \
		perl -I "$pgxs/src/test/perl" "$@"
}

# Processes that belong to this run: by a variable in their environment, or
# (PostgreSQL overwrites its environment) by their working directory.
own_processes()
{
	local proc pid

	for proc in /proc/[0-9]*; do
		pid=${proc#/proc/}
		[ "$pid" != $$ ] && [ "$pid" != "$BASHPID" ] || continue
		if [[ $(readlink "$proc/cwd" 2>/dev/null) == "$run"/* ]] ||
			tr '\0' '\n' 2>/dev/null <"$proc/environ" |
			grep -qxF "LOCKREDIS_RUN=$run"; then
			echo "$pid"
		fi
	done 2>/dev/null
}

# PostgreSQL's servers are asked first: killed, they leave shared memory behind.
end_processes()
{
	local file pid pids tries

	while read -r file; do
		kill -QUIT "$(head -n 1 "$file")" || :
	done < <(find "$run" -name postmaster.pid)
	for tries in {1..50}; do
		pids=$(own_processes)
		[ -n "$pids" ] || return 0
		for pid in $pids; do
			[ "$tries" -lt 40 ] && grep -qs '^postgres' "/proc/$pid/comm" ||
				kill -KILL "$pid" || :
		done
		sleep 0.1
	done
}

# Ends what prepare and the run began; "keep" leaves the directory.
finish_run()
{
	[ -n "$run" ] || return 0
	# bash would tell of each job that was killed.
	{ end_processes; wait; } 2>/dev/null
	if [ "${1-}" = keep ]; then
		echo "kept: $run"
	else
		rm -rf "$run"
	fi
}
