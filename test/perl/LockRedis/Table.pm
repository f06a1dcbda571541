# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Table - the table of table mode, as its owner sees and changes it

=head1 SYNOPSIS

  my $table = LockRedis::Table->new;    # dbname => lockredis.database
  my $node = LockRedis::Node->create('main', redis => $table);  # mode = table

  $table->hash('key');                  # { owner => count }, live or not
  $table->all_keys;
  $table->cmd('EXISTS', 'key');         # and PTTL (-2: no row), DEL, FLUSHALL,
                                        # DBSIZE, HSET, PEXPIRE, PUBLISH
  $table->take('key', 'somebody', '10s');   # true if it was free
  $table->give_back('key', 'somebody');     # true if it was theirs
  $table->somebody('somebody');             # how lockredis shows that owner

=head1 DESCRIPTION

Stands where tests pass a LockRedis::Redis, with those of its methods that a
test of locks needs to look at the store or to take a lock away.

Rows that it writes are such as lockredis writes for a key that stays locked after its
release: no others count.  Their owners have the names that the test gives them here,
and other ones in the table and to lockredis.

=cut

package LockRedis::Table;

use LockRedis::Pragmas;

use parent 'LockRedis::RedisLocks';

use Carp;
use Digest::MD5 qw(md5_hex);

sub new ($class, %opts) { return bless { dbname => $opts{dbname} || 'postgres' }, $class; }

# The server whose table it is; called by LockRedis::Node.
sub use_node ($self, $node)
{
	$self->{node} = $node;
	return $self;
}

sub _quote ($text)
{
	$text =~ s/'/''/g;
	return "'$text'";
}

# The owner of a key that an instance of this name keeps locked.
sub somebody ($self, $name)
{
	my $owner = join('-', unpack 'A8A4A4A4A12', md5_hex($name)) . ':1/kept';

	$self->{names}{$owner} = $name;
	return $owner;
}

sub _value ($self, $sql)
{
	croak 'use_node was not called' unless $self->{node};

	# A test may let commits wait for a standby, but not its own.
	return $self->{node}->value("SET synchronous_commit = local; $sql",
		dbname => $self->{dbname});
}

sub hash ($self, $key)
{
	my $row = $self->_value(
		'SELECT hold_count, owner FROM redis_lock_rows WHERE key = '
		  . _quote($key));

	return {} if $row eq '';
	my ($count, $owner) = split /\|/, $row, 2;
	return { $self->{names}{$owner} // $owner => $count };
}

sub all_keys ($self)
{
	my @tables = 'redis_lock_rows';

	# Version 1.0 has none of these.
	push @tables, 'redis_lock_shares'
	  if $self->_value(q{SELECT to_regclass('redis_lock_shares') IS NOT NULL}) eq 't';

	# In hexadecimal, as there may be newlines in them
	return map { pack 'H*', $_ } split /\n/, $self->_value(join(' UNION ',
			map { qq{SELECT encode(convert_to(key, 'UTF8'), 'hex') FROM $_} } @tables)
		  . ' ORDER BY 1');
}

# The owners of all who have a key together.
sub shares ($self, $key)
{
	return split /\n/, $self->_value(
		'SELECT owner FROM redis_lock_shares WHERE key = ' . _quote($key) . ' ORDER BY 1');
}

# Nobody listens, nobody is connected, and nothing is in between.
my @none;
sub channels { return @none }
sub clients { return @none }
sub proxy { return }

# Nor are there commands.
sub script_calls { return }
sub calls { return }

sub token ($self, $key)
{
	my $token = $self->_value(
		'SELECT token FROM redis_lock_counters WHERE key = ' . _quote($key));

	return $token eq '' ? undef : $token;
}

sub set_token ($self, $key, $value)
{
	$self->_value(
		defined $value
		? sprintf 'INSERT INTO redis_lock_counters VALUES (%s, %s)'
		  . ' ON CONFLICT (key) DO UPDATE SET token = EXCLUDED.token',
		_quote($key), $value
		: 'DELETE FROM redis_lock_counters WHERE key = ' . _quote($key));
	return;
}

sub replace_owner ($self, $key, $owner)
{
	$self->_value(
		sprintf q{
		UPDATE redis_lock_rows
		SET owner = %s, hold_count = 1, fence = NULL, instance = NULL,
			lease = '10 min', expires_at = clock_timestamp() + interval '10 min'
		WHERE key = %s}, _quote($self->somebody($owner)), _quote($key));
	return;
}

# The table worker does nothing.
sub freeze ($self)
{
	$self->{frozen} = $self->{node}->table_worker_pid;
	kill 'STOP', $self->{frozen};
	return;
}

sub thaw ($self)
{
	kill 'CONT', delete $self->{frozen} if $self->{frozen};
	return;
}

# A server whose worker is stopped could not be.
sub DESTROY ($self)
{
	$self->thaw;
	return;
}

my %command = (
	EXISTS => sub {
		'SELECT count(*) FROM redis_lock_rows WHERE key IN ('
		  . join(', ', map { _quote($_) } @_) . ')';
	},
	TYPE => sub {
		q{SELECT CASE count(*) WHEN 0 THEN 'none' ELSE 'row' END FROM redis_lock_rows WHERE key = }
		  . _quote($_[0]);
	},
	PTTL => sub {
		'SELECT coalesce((SELECT round(1000 * extract(epoch FROM'
		  . ' expires_at - clock_timestamp())) FROM redis_lock_rows WHERE key = '
		  . _quote($_[0]) . '), -2)';
	},
	DEL => sub {
		'WITH gone AS (DELETE FROM redis_lock_rows WHERE key = '
		  . _quote($_[0]) . ' RETURNING 1) SELECT count(*) FROM gone';
	},
	DBSIZE => sub { 'SELECT count(*) FROM redis_lock_rows' },
	HSET => sub {
		'INSERT INTO redis_lock_rows (key, owner, hold_count, lease, expires_at) VALUES ('
		  . join(', ', map { _quote($_) } @_)
		  . q{, '576 hours', clock_timestamp() + interval '576 hours')};
	},
	PEXPIRE => sub {
		"UPDATE redis_lock_rows SET expires_at = clock_timestamp() + $_[1] * interval '1 ms' WHERE key = "
		  . _quote($_[0]);
	},
	TIME => sub { 'SELECT extract(epoch FROM clock_timestamp())' },
	PUBLISH => sub { 'SELECT 0' },
	FLUSHALL => sub { 'DELETE FROM redis_lock_counters; DELETE FROM redis_lock_rows' });

sub cmd ($self, $command, @args)
{
	croak "no $command in a table" unless $command{$command};
	$args[1] = $self->somebody($args[1]) if $command eq 'HSET';
	my $value = $self->_value($command{$command}->(@args));
	return $command eq 'TIME' ? [ split /\./, $value ] : $value;
}

sub take ($self, $key, $owner, $lease)
{
	return $self->_value(
		sprintf q{
		WITH taken AS (
			INSERT INTO redis_lock_rows AS r (key, owner, lease, expires_at)
			VALUES (%s, %s, %s, clock_timestamp() + %3$s::interval)
			ON CONFLICT (key) DO UPDATE
			SET owner = EXCLUDED.owner, hold_count = 1, fence = NULL,
				lease = EXCLUDED.lease, acquired_at = clock_timestamp(),
				expires_at = EXCLUDED.expires_at, instance = NULL,
				comment = EXCLUDED.comment
			WHERE r.expires_at <= clock_timestamp()
			RETURNING 1)
		SELECT count(*) FROM taken},
		_quote($key), _quote($self->somebody($owner)), _quote($lease)) == 1;
}

sub give_back ($self, $key, $owner)
{
	return $self->_value(
		sprintf q{
		WITH gone AS (
			DELETE FROM redis_lock_rows WHERE key = %s AND owner = %s RETURNING 1)
		SELECT count(*) FROM gone}, _quote($key), _quote($self->somebody($owner))) == 1;
}

1;
