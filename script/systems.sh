# shellcheck shell=bash
#
# systems.sh: Debian systems in directories, which script/matrix and script/package
# build and test in; to be sourced by bash.
#
# They are made by debootstrap, as root, with a gigabyte or two each, and kept in
# the directory that LOCKREDIS_SYSTEMS names (/var/cache/lockredis-systems).
# Removing that, or one of them, has it made anew.  script/in-system runs commands
# in them.
#
#   system     the directory of the one that was asked for last
#

systems=${LOCKREDIS_SYSTEMS:-/var/cache/lockredis-systems}
system=''

# Rights to make Debian systems, and the tools
need_systems()
{
	if [ "$(id -u)" -ne 0 ]; then
		echo "$(basename "$0"): needs root" >&2
		exit 1
	fi
	"$top/script/bootstrap" systems
}

# made SYSTEM COMMAND ...: unless it is there, by a command that is given the
# directory as its last argument.  One that was not finished does not count.
made()
{
	local name=$1
	shift

	system=$systems/$name
	[ ! -d "$system" ] || return 0
	mkdir -p "$systems"
	rm -rf "$system.new"
	echo "making the system $name (log: $systems/$name.log)"
	if ! "$@" "$system.new" >"$systems/$name.log" 2>&1 </dev/null; then
		tail -n 20 "$systems/$name.log" >&2
		return 1
	fi
	mv "$system.new" "$system"
}

# debian_system SUITE ARCHITECTURE: with what every Debian system has, and no more
debian_system()
{
	made "$1-$2" bootstrap_debian "$1" "$2"
}

bootstrap_debian()
{
	local known=/usr/share/debootstrap/scripts/$1

	# A suite that is younger than debootstrap is made like the newest.
	[ -e "$known" ] || known=/usr/share/debootstrap/scripts/sid
	debootstrap --variant=minbase --arch="$2" "$1" "$3" '' "$known" || return 1
	# A mirror may be older than its release wants it to be.
	echo 'Acquire::Check-Valid-Until "false";' >"$3/etc/apt/apt.conf.d/99old-mirror"
	echo "127.0.0.1 localhost $(hostname)" >"$3/etc/hosts"
	# No service is started in there.
	printf '#!/bin/sh\nexit 101\n' >"$3/usr/sbin/policy-rc.d"
	chmod 755 "$3/usr/sbin/policy-rc.d"
}

# derived_system NAME BASE [--bind FROM:TO ...] COMMAND ...: a copy in which this
# command has run
derived_system()
{
	local name=$1 base=$systems/$2
	shift 2

	made "$name" derive "$base" "$@"
}

derive()
{
	local base=$1 new=${*: -1} arguments=("${@:2:$#-2}") options=()

	cp -a --reflink=auto "$base" "$new" || return 1
	while [ "${arguments[0]}" = --bind ]; do
		mkdir -p "$new${arguments[1]#*:}"
		options+=(--bind "${arguments[1]}")
		arguments=("${arguments[@]:2}")
	done
	"$top/script/in-system" ${options[@]+"${options[@]}"} "$new" "${arguments[@]}"
}
