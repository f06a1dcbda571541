/*-------------------------------------------------------------------------
 *
 * prepared.c
 *	  Prepared transactions: what stays when their session goes on.
 *
 * A crash of the server rolls them back here, as an administrator could then.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/prepared.c
 *
 *-------------------------------------------------------------------------
 */
#include "heap.h"

typedef struct Prepared
{
	bool		used;
	TransactionId xid;
	int64		number;			/* of all that there were; not one twice */
} Prepared;

static Prepared *prepared;

void		(*prepared_ends) (int number, bool commit);

void
prepared_init(void)
{
	if (shared_root->prepared == NULL)
		shared_root->prepared = sim_arena_alloc(sizeof(Prepared) * PREPARED_PLACES);
	prepared = shared_root->prepared;
}

bool
prepared_has_room(void)
{
	int			used = 0;

	for (int i = 0; i < PREPARED_PLACES; i++)
		used += prepared[i].used;
	return used < PREPARED_MAX;
}

int
prepared_add(TransactionId xid)
{
	int			n = 0;

	while (prepared[n].used)
		n++;
	prepared[n].used = true;
	prepared[n].xid = xid;
	prepared[n].number = sim_now();
	heavy_locks_pass_on(OWNER_PREPARED + n);
	return n;
}

int64
prepared_number(int n)
{
	return prepared[n].used ? prepared[n].number : 0;
}

int
prepared_first(void)
{
	for (int i = 0; i < PREPARED_PLACES; i++)
		if (prepared[i].used)
			return i;
	return -1;
}

void
prepared_finish(int n, bool commit)
{
	sim_trace("prepared transaction %d is %s", n, commit ? "committed" : "rolled back");
	if (TransactionIdIsValid(prepared[n].xid))
		transam_end(prepared[n].xid, commit);
	if (prepared_ends != NULL)
		prepared_ends(n, commit);
	prepared[n].used = false;
	heavy_locks_release_all(OWNER_PREPARED + n);
}
