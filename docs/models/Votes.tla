------------------------------- MODULE Votes -------------------------------
(* One key at independent masters, and two servers of PostgreSQL that want it.  A master
   may be restarted and forget everything, and a name of lockredis.url may be pointed to a
   spare, which has never heard of the lock.

   Each round (create, renewal, release) is one step that reaches some of the masters, any
   of them: that others come between is the same as that those were not reached.  A create
   that did not reach a master in time can still arrive there later.

   A create that gets no majority is not here.  It is given back behind itself, on the same
   connections; should one of these break, it stays at a minority for one lease, and nobody
   knows of it.  For others that is the same as a master that they do not reach.  That
   leases count from before a request is sent is the matter of Claim.tla.

   Each constant below whose name ends in Rule is TRUE in the product; what ends in Premise
   docs/masters.md asks for. *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Clients,           \* servers of PostgreSQL
    Names,             \* of lockredis.url; at first each leads to a master of that name
    Spares,            \* more masters
    Lease, MaxLease,   \* of a lock; the longest that anybody may ask for
    MaxTime, MaxOwner, MaxFaults,
    AgeRule,           \* a master that was started lately has no vote
    RunIdRule,         \* another run id behind a name counts as started now
    LeaseRule,         \* no lease is longer than MaxLease
    MajorityRule,      \* more than half must grant
    RenewRule,         \* more than half must still have it
    OwedRule,          \* a release that a minority missed is repeated there
    StopPremise,       \* a master is stopped before its name leads to another one
    EmptyPremise       \* which is started when the name leads to it

None == 0
Long == -100           \* "for long": before everything

VARIABLES
    now, nextOwner, faults,
    machine,           \* of each master: owner, until when, since when it runs, which run
    target,            \* where a name leads
    row,               \* of a client and a name: master, run, since when that counts
    claim,             \* of a client: the lock that it holds
    late,              \* creates that have not arrived yet
    owed               \* releases that a master still needs: [owner, at]

vars == <<now, nextOwner, faults, machine, target, row, claim, late, owed>>

Masters == Names \cup Spares
Quorum  == IF MajorityRule THEN Cardinality(Names) \div 2 + 1 ELSE 1
Renews  == IF RenewRule THEN Quorum ELSE 1
LeaseOf == IF LeaseRule THEN Lease ELSE MaxLease + 2
NoClaim == [owner |-> None, deadline |-> 0]

Init ==
    /\ now = 0 /\ nextOwner = 1 /\ faults = 0
    /\ machine = [m \in Masters |-> [owner |-> None, until |-> 0, since |-> Long, run |-> 0]]
    /\ target = [n \in Names |-> n]
    /\ row = [c \in Clients |-> [n \in Names |-> [at |-> n, run |-> 0, since |-> Long]]]
    /\ claim = [c \in Clients |-> NoClaim]
    /\ late = {} /\ owed = {}

---------------------------------------------------------------------------
Live(c)      == claim[c].owner # None /\ now < claim[c].deadline
Has(m, o)    == machine[m].owner = o /\ now < machine[m].until
IsFree(m)    == machine[m].owner = None \/ now >= machine[m].until
Linked(c, n) == row[c][n].run = machine[row[c][n].at].run     \* the connection stands
Reachable(c) == SUBSET {n \in Names : Linked(c, n)}
At(c, names) == {row[c][n].at : n \in names}

\* masters_may_vote(), for a request that is sent now
MayVote(c, n) == AgeRule => now - row[c][n].since > MaxLease

\* These masters, with the lock of that owner, or without
Given(ms, o) == [m \in Masters |-> IF m \in ms
                   THEN [machine[m] EXCEPT !.owner = o, !.until = now + LeaseOf]
                   ELSE machine[m]]
Freed(ms, o) == [m \in Masters |-> IF m \in ms /\ Has(m, o)
                   THEN [machine[m] EXCEPT !.owner = None, !.until = 0]
                   ELSE machine[m]]

\* What is to be released at these masters
Owing(o, ms) == owed \cup IF OwedRule THEN {[owner |-> o, at |-> m] : m \in ms} ELSE {}

---------------------------------------------------------------------------
(* A session.  "names" are those whose masters are reached, and answer in time. *)

Take(c, names) ==
    /\ claim[c] = NoClaim /\ nextOwner <= MaxOwner
    /\ LET granted == {n \in names : IsFree(row[c][n].at)}
           missed  == At(c, Names) \ At(c, names)
       IN /\ Cardinality({n \in granted : MayVote(c, n)}) >= Quorum
          /\ machine' = Given(At(c, granted), nextOwner)
          /\ late' = late \cup {[owner |-> nextOwner, at |-> m, notAfter |-> now + 1] :
                                m \in missed}
    /\ claim' = [claim EXCEPT ![c] = [owner |-> nextOwner, deadline |-> now + LeaseOf]]
    /\ nextOwner' = nextOwner + 1
    /\ UNCHANGED <<now, faults, target, row, owed>>

Arrive(l) ==                       \* a create that is late
    /\ l \in late
    /\ late' = late \ {l}
    /\ machine' = IF IsFree(l.at) THEN Given({l.at}, l.owner) ELSE machine
    /\ UNCHANGED <<now, nextOwner, faults, target, row, claim, owed>>

\* Given back, or lost by the end of the lease.  A release follows its create on the same
\* connection; what arrives where that broke is as if the create had got no majority.
End(c, names) ==
    /\ claim[c] # NoClaim
    /\ machine' = Freed(At(c, names), claim[c].owner)
    /\ owed' = Owing(claim[c].owner, At(c, Names) \ At(c, names))
    /\ late' = {l \in late : l.owner # claim[c].owner}
    /\ claim' = [claim EXCEPT ![c] = NoClaim]
    /\ UNCHANGED <<now, nextOwner, faults, target, row>>

---------------------------------------------------------------------------
(* The watchdog. *)

\* Those that do not have it get it, but make no majority.
Renew(c, names) ==
    /\ Live(c)
    /\ LET having == {n \in names : Has(row[c][n].at, claim[c].owner)}
           repair == {n \in names \ having : IsFree(row[c][n].at)}
       IN /\ Cardinality(having) >= Renews
          /\ machine' = Given(At(c, having \cup repair), claim[c].owner)
    /\ claim' = [claim EXCEPT ![c].deadline = now + LeaseOf]
    /\ UNCHANGED <<now, nextOwner, faults, target, row, late, owed>>

Settle(e) ==                       \* once a second, until the lease has ended
    /\ e \in owed
    /\ machine' = Freed({e.at}, e.owner)
    /\ owed' = owed \ {e}
    /\ UNCHANGED <<now, nextOwner, faults, target, row, claim, late>>

---------------------------------------------------------------------------
(* What may happen to masters and to servers of PostgreSQL. *)

Fault == faults < MaxFaults /\ faults' = faults + 1

\* They are started anew, and have forgotten every lock.  What was on its way to them is lost.
Anew(ms) ==
    /\ machine' = [m \in Masters |-> IF m \notin ms THEN machine[m] ELSE
         [machine[m] EXCEPT !.owner = None, !.until = 0, !.since = now, !.run = @ + 1]]
    /\ late' = {l \in late : l.at \notin ms}

Restart(m) ==
    /\ Fault
    /\ Anew({m})
    /\ UNCHANGED <<now, nextOwner, target, row, claim, owed>>

Repoint(n, m) ==                   \* to one that no name leads to
    /\ Fault
    /\ \A o \in Names : target[o] # m
    /\ target' = [target EXCEPT ![n] = m]
    /\ Anew((IF StopPremise THEN {target[n]} ELSE {}) \cup (IF EmptyPremise THEN {m} ELSE {}))
    /\ UNCHANGED <<now, nextOwner, row, claim, owed>>

\* A connection is made.  What was there since before counts as started now.
Connect(c, n) ==
    /\ row[c][n].at # target[n] \/ ~Linked(c, n)
    /\ LET m == target[n]
       IN row' = [row EXCEPT ![c][n] = [at |-> m, run |-> machine[m].run,
                    since |-> IF RunIdRule THEN now ELSE machine[m].since]]
    /\ UNCHANGED <<now, nextOwner, faults, machine, target, claim, late, owed>>

\* A server of PostgreSQL that holds nothing is started.  It believes what masters say.
Start(c) ==
    /\ Fault
    /\ claim[c] = NoClaim
    /\ row' = [row EXCEPT ![c] = [n \in Names |-> [at |-> target[n],
                 run |-> machine[target[n]].run, since |-> machine[target[n]].since]]]
    /\ UNCHANGED <<now, nextOwner, machine, target, claim, late, owed>>

Tick ==
    /\ now < MaxTime
    /\ now' = now + 1
    /\ machine' = [m \in Masters |-> IF machine[m].until <= now + 1
                     THEN [machine[m] EXCEPT !.owner = None, !.until = 0] ELSE machine[m]]
    /\ late' = {l \in late : l.notAfter > now}
    /\ UNCHANGED <<nextOwner, faults, target, row, claim, owed>>

Next ==
    \/ Tick
    \/ \E l \in late : Arrive(l)
    \/ \E e \in owed : Settle(e)
    \/ \E m \in Masters : Restart(m) \/ \E n \in Names : Repoint(n, m)
    \/ \E c \in Clients :
         \/ \E names \in Reachable(c) : Take(c, names) \/ Renew(c, names) \/ End(c, names)
         \/ \E n \in Names : Connect(c, n)
         \/ Start(c)

\* Servers are alike, and so are names with the masters that they lead to.
Alike == Permutations(Clients) \cup Permutations(Names)
Spec == Init /\ [][Next]_vars

---------------------------------------------------------------------------
OneHolder == \A c, d \in Clients : Live(c) /\ Live(d) => c = d

\* Whatever a master of the list has belongs to a claim, or is owed a release.
\* What lies where no name leads any more ends with its lease.
NothingForgotten ==
    \A m \in {target[n] : n \in Names} : machine[m].owner # None =>
        \/ \E c \in Clients : claim[c].owner = machine[m].owner
        \/ [owner |-> machine[m].owner, at |-> m] \in owed
=============================================================================
