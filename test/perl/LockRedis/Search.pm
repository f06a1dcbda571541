# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Search - where a role can read a text: every table and view

=head1 SYNOPSIS

  make_search($node);                  # once, in the database postgres
  is(found($session, 'secret'), '');   # names of relations that have it

=cut

package LockRedis::Search;

use LockRedis::Pragmas;

use Exporter 'import';

our @EXPORT_OK = qw(found make_search);

# A relation that cannot be read at all has nothing to show.
sub make_search ($node)
{
	$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION search(pattern text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	relation regclass;
	found boolean;
BEGIN
	FOR relation IN
		SELECT oid FROM pg_class
		 WHERE relkind IN ('r', 'v', 'm', 'p', 'f')
		   AND has_table_privilege(oid, 'SELECT')
		 ORDER BY oid::regclass::text COLLATE "C"
	LOOP
		BEGIN
			EXECUTE format('SELECT EXISTS (SELECT FROM %s t WHERE t::text ~ $1)',
				relation) INTO found USING pattern;
			IF found THEN
				RETURN NEXT relation::text;
			END IF;
		EXCEPTION WHEN insufficient_privilege OR feature_not_supported
				OR object_not_in_prerequisite_state THEN
			NULL;
		END;
	END LOOP;
END $$;
SQL
	return;
}

# The pattern is written so that it does not match itself in pg_stat_activity.
sub found ($session, $text)
{
	$text =~ s/([^A-Za-z0-9])/[$1]/g;
	$text =~ s/^(.)/[$1]/;
	$text =~ s/'/''/g;
	return join ' ', map { $_->[0] } @{ $session->query("SELECT search('$text')", 120)->rows };
}

1;
