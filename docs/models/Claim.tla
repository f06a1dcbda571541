------------------------------- MODULE Claim -------------------------------
(* One key in one Redis: how a session of PostgreSQL takes, renews, and releases it, and
   why nothing is forgotten when a session or the watchdog stops in between.

   README.md says which function each step stands for.  Time is a small number that ticks.
   Requests wait on the wire for as long as they like, arrive in any order, or get lost; so
   do replies.  Sessions belong to one server.  "Foreign" is any client elsewhere that uses
   the same key, such as Redisson.

   Each constant below whose name ends in Rule is TRUE in the product.  Set to FALSE, it
   takes the rule away, and TLC finds what happens then. *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Sessions,          \* sessions of this server
    Lease,             \* time to live of a lock
    MaxTime,           \* where a behaviour ends
    MaxOwner,          \* so many owner numbers are used
    MaxFlight,         \* so many requests and replies are under way
    LateCreateRule,    \* a create says until when it may run
    AbandonRule,       \* a create that was not answered leaves a record
    RepeatRule,        \* releases repeat until one ran after that moment
    OwnerRule,         \* a release and a renewal check the owner
    BeforeSendRule,    \* leases count from before the request was sent
    DeadlineRule,      \* a deadline that has passed is never raised
    SharedRule,        \* records outlive the watchdog (shared memory)
    GuardRule,         \* a commit judges by an instant that no I/O follows
    ConflictRule,      \* a grant beside a live hold of the server gives way
    FenceRule,         \* PostgreSQL refuses a token below the highest
    RedisForgets       \* not a rule: Redis may be restarted empty, without fences then

None    == 0           \* no owner
Foreign == -1          \* the owner elsewhere
Never   == -1          \* no time

VARIABLES
    now,               \* the clock
    redis,             \* the lock in Redis: its owner, until when, last token
    wire,              \* requests that have been sent and have not run
    replies,           \* replies that have not been read
    hold,              \* what the lock table has of each session
    abandoned,         \* claims that no session has: the watchdog releases
    nextOwner,         \* owner numbers are never used twice
    committed,         \* was each commit one that still had the lock?
    written            \* highest token that PostgreSQL saw; were all in order?

vars == <<now, redis, wire, replies, hold, abandoned, nextOwner, committed, written>>
ends == <<nextOwner, committed, written>>

Free == [state |-> "free", owner |-> None, notAfter |-> Never, deadline |-> Never, token |-> 0]

Init ==
    /\ now = 0 /\ redis = [owner |-> None, until |-> 0, token |-> 0]
    /\ wire = {} /\ replies = {} /\ abandoned = {} /\ nextOwner = 1
    /\ hold = [s \in Sessions |-> Free]
    /\ committed = TRUE /\ written = [highest |-> 0, inOrder |-> TRUE]

---------------------------------------------------------------------------
(* What the state means. *)

IsFree      == redis.owner = None
Emptied     == [redis EXCEPT !.owner = None, !.until = 0]
Taken(o)    == [owner |-> o, until |-> now + Lease,
                token |-> IF RedisForgets THEN 0 ELSE redis.token + 1]
Live(s)     == hold[s].state = "held" /\ now < hold[s].deadline
Lost(s)     == [Free EXCEPT !.state = "lost", !.token = hold[s].token]
Record(o, notAfter) == [owner |-> o, notAfter |-> notAfter]

\* Sent now; a renewal or a release may run at any time.
Request(verb, o, notAfter) == [verb |-> verb, owner |-> o, notAfter |-> notAfter,
                               sent |-> IF verb = "release" THEN Never ELSE now]

\* What nobody awaits is not read: a session awaits the answer to its create, and
\* the watchdog that to a renewal.
Awaited(r) == \/ r.verb = "release"
              \/ \E s \in Sessions : /\ hold[s].owner = r.owner
                     /\ hold[s].state = IF r.verb = "create" THEN "waiting" ELSE "held"
Others(s)  == {r \in replies : r.owner # hold[s].owner \/ r.verb = "release"}

\* Until when a lease is good that was asked for then
LeaseFrom(sent) == (IF BeforeSendRule THEN sent ELSE now) + Lease

Tick == /\ now < MaxTime /\ now' = now + 1
        /\ redis' = IF redis.until <= now' THEN Emptied ELSE redis
        /\ UNCHANGED <<wire, replies, hold, abandoned, ends>>

---------------------------------------------------------------------------
(* A session asks.  The hold exists before the request is sent. *)

Create(s) ==
    /\ hold[s] = Free /\ nextOwner <= MaxOwner
    /\ \A t \in Sessions : ~Live(t)
    /\ hold' = [hold EXCEPT ![s] = [Free EXCEPT !.state = "waiting", !.owner = nextOwner,
                                                !.notAfter = now + 1]]
    /\ wire' = wire \cup {Request("create", nextOwner,
                                  IF LateCreateRule THEN now + 1 ELSE MaxTime)}
    /\ nextOwner' = nextOwner + 1
    /\ UNCHANGED <<now, redis, replies, abandoned, committed, written>>

\* A create that was answered runs no more: one release of it is enough.
Granted(s, r) ==
    /\ r \in replies /\ r.verb = "create"
    /\ hold[s].state = "waiting" /\ hold[s].owner = r.owner
    /\ replies' = replies \ {r}
    /\ LET beside == ConflictRule /\ \E t \in Sessions \ {s} : Live(t)
           takes  == r.ok /\ ~beside /\ now < LeaseFrom(r.sent)
       IN /\ hold' = [hold EXCEPT ![s] = IF ~takes THEN Free ELSE [Free EXCEPT
                        !.state = "held", !.owner = r.owner, !.token = r.token,
                        !.deadline = LeaseFrom(r.sent)]]
          /\ abandoned' = IF takes \/ ~r.ok THEN abandoned
                          ELSE abandoned \cup {Record(r.owner, Never)}
    /\ UNCHANGED <<now, redis, wire, ends>>

\* A session gives up: by a cancel, a time limit, or its end.
Abandon(s) ==
    /\ hold[s].state \in {"waiting", "releasing"}
    /\ abandoned' = abandoned \cup
         IF AbandonRule THEN {Record(hold[s].owner, hold[s].notAfter)} ELSE {}
    /\ hold' = [hold EXCEPT ![s] = Free]
    /\ replies' = Others(s)
    /\ UNCHANGED <<now, redis, wire, ends>>

Unlock(s) ==
    /\ Live(s)
    /\ hold' = [hold EXCEPT ![s] = [Free EXCEPT !.state = "releasing", !.owner = hold[s].owner]]
    /\ wire' = wire \cup {Request("release", hold[s].owner, MaxTime)}
    /\ replies' = Others(s)
    /\ UNCHANGED <<now, redis, abandoned, ends>>

\* Anybody who sees that the deadline has passed
Expire(s) ==
    /\ hold[s].state = "held" /\ now >= hold[s].deadline
    /\ hold' = [hold EXCEPT ![s] = Lost(s)]
    /\ abandoned' = abandoned \cup {Record(hold[s].owner, Never)}
    /\ replies' = Others(s)
    /\ UNCHANGED <<now, redis, wire, ends>>

---------------------------------------------------------------------------
(* The watchdog: renewals, and what is left of those who are gone. *)

Renew(s) ==
    /\ hold[s].state = "held"
    /\ wire' = wire \cup {Request("renew", hold[s].owner, MaxTime)}
    /\ UNCHANGED <<now, redis, replies, hold, abandoned, ends>>

Renewed(s, r) ==
    /\ r \in replies /\ r.verb = "renew"
    /\ hold[s].state = "held" /\ hold[s].owner = r.owner
    /\ replies' = replies \ {r}
    /\ hold' = IF ~r.ok THEN [hold EXCEPT ![s] = Lost(s)]
               ELSE IF (Live(s) \/ ~DeadlineRule) /\ LeaseFrom(r.sent) > hold[s].deadline
               THEN [hold EXCEPT ![s].deadline = LeaseFrom(r.sent)]
               ELSE hold
    /\ UNCHANGED <<now, redis, wire, abandoned, ends>>

GiveBack(c) ==
    /\ c \in abandoned
    /\ wire' = wire \cup {Request("release", c.owner, MaxTime)}
    /\ UNCHANGED <<now, redis, replies, hold, abandoned, ends>>

Released(r) ==
    /\ r \in replies /\ r.verb = "release"
    /\ replies' = replies \ {r}
    /\ hold' = [s \in Sessions |->
         IF hold[s].state = "releasing" /\ hold[s].owner = r.owner THEN Free ELSE hold[s]]
    /\ abandoned' = {c \in abandoned : c.owner # r.owner
                                        \/ (RepeatRule /\ r.ran <= c.notAfter)}
    /\ UNCHANGED <<now, redis, wire, ends>>

\* Terminated, and started again: what was in its own memory is gone.
WatchdogRestart ==
    /\ abandoned' = IF SharedRule THEN abandoned ELSE {}
    /\ replies' = {r \in replies : r.verb # "renew"}
    /\ UNCHANGED <<now, redis, wire, hold, ends>>

---------------------------------------------------------------------------
(* Redis runs one request. *)

Run(m) ==
    /\ m \in wire
    /\ wire' = wire \ {m}
    /\ LET ok    == IF m.verb = "create" THEN IsFree /\ now <= m.notAfter
                    ELSE IF OwnerRule THEN redis.owner = m.owner ELSE ~IsFree
           after == IF ~ok THEN redis ELSE CASE
                    m.verb = "create"  -> Taken(m.owner)
                 [] m.verb = "renew"   -> [redis EXCEPT !.until = now + Lease]
                 [] m.verb = "release" -> Emptied
           reply == [verb |-> m.verb, owner |-> m.owner, ok |-> ok, sent |-> m.sent,
                     ran |-> now, token |-> after.token]
       IN /\ redis' = after
          /\ replies' = IF Awaited(reply) THEN replies \cup {reply} ELSE replies
    /\ UNCHANGED <<now, hold, abandoned, ends>>

Lose(m) == /\ wire' = wire \ {m} /\ replies' = replies \ {m}
           /\ UNCHANGED <<now, redis, hold, abandoned, ends>>

\* Another client takes the lock; Redis is restarted empty.
ForeignTakes == /\ IsFree /\ redis' = Taken(Foreign)
                /\ UNCHANGED <<now, wire, replies, hold, abandoned, ends>>
ForgetAll    == /\ RedisForgets /\ redis' = Emptied
                /\ UNCHANGED <<now, wire, replies, hold, abandoned, ends>>

---------------------------------------------------------------------------
(* The end of a transaction, and a row that a token guards. *)

Commit(s) ==                       \* without GuardRule: by what was seen before
    /\ hold[s].state = "held" /\ (GuardRule => Live(s))
    /\ committed' = (committed /\ redis.owner = hold[s].owner)
    /\ UNCHANGED <<now, redis, wire, replies, hold, abandoned, nextOwner, written>>

Write(s) ==                        \* by whoever had a token, if only once
    /\ hold[s].state \in {"held", "lost"} /\ hold[s].token > 0
    /\ FenceRule => hold[s].token >= written.highest
    /\ written' = [highest |-> IF hold[s].token > written.highest
                               THEN hold[s].token ELSE written.highest,
                   inOrder |-> written.inOrder /\ hold[s].token >= written.highest]
    /\ UNCHANGED <<now, redis, wire, replies, hold, abandoned, nextOwner, committed>>

Next ==
    \/ Tick \/ ForeignTakes \/ ForgetAll \/ WatchdogRestart
    \/ \E m \in wire : Run(m)
    \/ \E m \in wire \cup replies : Lose(m)
    \/ \E r \in replies : Released(r) \/ \E s \in Sessions : Granted(s, r) \/ Renewed(s, r)
    \/ \E c \in abandoned : GiveBack(c)
    \/ \E s \in Sessions : Create(s) \/ Abandon(s) \/ Unlock(s) \/ Expire(s) \/ Renew(s)
                             \/ Commit(s) \/ Write(s)

\* What TLC looks at: few requests at once, and sessions are all alike.
Bound == Cardinality(wire) + Cardinality(replies) <= MaxFlight
Alike == Permutations(Sessions)
Spec == Init /\ [][Next]_vars

---------------------------------------------------------------------------
(* What must hold. *)

\* Whoever believes to hold the lock does: no one else can have it.
BelievedIsTrue == \A s \in Sessions : Live(s) => redis.owner = hold[s].owner

\* Of this server at most one, even if Redis has forgotten the lock.
OneHolder == \A s, t \in Sessions : Live(s) /\ Live(t) => s = t

\* What Redis has of this server, or may still get, is known here.
Known(o) == (\E s \in Sessions : hold[s].owner = o) \/ (\E c \in abandoned : c.owner = o)
NothingForgotten ==
    /\ redis.owner > 0 => Known(redis.owner)
    /\ \A m \in wire : m.verb = "create" /\ now <= m.notAfter => Known(m.owner)

CommitsWereRight == committed
WritesAreInOrder == written.inOrder
=============================================================================
