------------------------------ MODULE Fallback ------------------------------
(* One key in fallback mode: a server of PostgreSQL keeps it in Redis, and in a table of
   its own while Redis does not answer.  A client elsewhere ("Foreign") knows of Redis only.

   Redis is down or up.  While it is down it serves nobody; it keeps what it has, and
   leases run.  While it is up both stores can grant the key until this server hears of
   that: docs/fallback.md.  Creates that are late are the matter of Claim.tla.

   Each constant below whose name ends in Rule is TRUE in the product; what ends in Premise
   is what this mode cannot see. *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Sessions,
    Lease,             \* of everybody
    After,             \* fallback_after: so long Redis has not answered
    MaxTime, MaxOwner,
    HoldOffRule,       \* the table gives nothing until leases of before are over
    AnswerRule,        \* any answer to the watchdog begins the silence anew
    HeardRule,         \* and any answer to a session
    StayedRule,        \* a key that was here before the silence may be elsewhere by now
    StaleRule,         \* the table's grant is given back if Redis has answered since
    LocalRule,         \* no hold is made beside a live one of this server
    DeadlineRule,      \* a deadline that has passed is never raised
    TraceRule,         \* a hold knows each store in which its owner may be
    DownPremise,       \* a Redis that does not answer us answers nobody
    SeenPremise        \* one that comes back, or that the watchdog alone cannot reach, stays
                       \* until somebody here has heard it

None    == 0
Foreign == -1
Never   == -1

VARIABLES
    now, nextOwner,
    up,                \* does Redis answer this server?
    reached,           \* and can the watchdog ask it?
    heard,             \* has anybody heard it since then?
    redis, table,      \* who has the key there, and until when
    inUse,             \* to which store new locks go
    silent,            \* since when: the watchdog's first request without an answer
    stayed,            \* nobody elsewhere had the key at some time in this silence
    overtaken,         \* sessions that wait, and Redis has answered since they asked
    hold,              \* of each session
    left,              \* [owner, store]: what the watchdog has to give back
    sound              \* was each grant of the table one that it could give?

vars  == <<now, nextOwner, up, reached, heard, redis, table, inUse, silent, stayed, overtaken,
           hold, left, sound>>
known == <<silent, stayed, overtaken>>
world == <<up, reached, heard, inUse, silent, stayed>>

Free == [state |-> "free", owner |-> None, store |-> "redis", sent |-> 0,
         deadline |-> Never, answered |-> FALSE, traces |-> {}]

Init ==
    /\ now = 0 /\ nextOwner = 1 /\ up = TRUE /\ reached = TRUE /\ heard = TRUE
    /\ redis = [owner |-> None, until |-> 0]
    /\ table = [owner |-> None, until |-> 0]
    /\ inUse = "redis" /\ silent = Never /\ stayed = FALSE /\ overtaken = {}
    /\ hold = [s \in Sessions |-> Free]
    /\ left = {} /\ sound = TRUE

---------------------------------------------------------------------------
At(store)      == IF store = "redis" THEN redis ELSE table
HasNow(r, o)   == r.owner = o /\ now < r.until
Nobody(r)      == r.owner = None \/ now >= r.until
Live(s)        == hold[s].state = "held" /\ now < hold[s].deadline
Answers(store) == store = "table" \/ up
Obeys(store)   == store = "table" \/ (up /\ reached)      \* the watchdog

\* May somebody elsewhere still have the key in Redis, by a lease from before the silence?
HeldOff == /\ HoldOffRule /\ ~stayed
           /\ silent = Never \/ now < silent + Lease

\* The key is here by now, and Redis is silent since before: nobody elsewhere gets it.
Stays(here) == stayed \/ (here /\ (StayedRule => silent # Never))

\* What may be left of a hold when it ends
Left(h) == {[owner |-> h.owner, store |-> t] : t \in IF TraceRule THEN h.traces ELSE {h.store}}

\* The watchdog has an answer of this store.
Hear(store) ==
    LET news == store = "redis" /\ AnswerRule
    IN /\ silent' = IF news THEN Never ELSE silent
       /\ stayed' = (stayed /\ ~news)
       /\ heard' = (heard \/ store = "redis")
       /\ overtaken' = IF store # "redis" THEN overtaken
                       ELSE {s \in Sessions : hold[s].state = "waiting"}

\* A session has one.
HearAs(s) ==
    /\ silent' = IF HeardRule THEN Never ELSE silent
    /\ stayed' = (stayed /\ ~HeardRule)
    /\ heard' = TRUE
    /\ overtaken' = IF ~HeardRule THEN overtaken \ {s}
                    ELSE {t \in Sessions \ {s} : hold[t].state = "waiting"}

Put(store, r) ==
    /\ redis' = IF store = "redis" THEN r ELSE redis
    /\ table' = IF store = "table" THEN r ELSE table
Given(o) == [owner |-> o, until |-> now + Lease]

---------------------------------------------------------------------------
(* A session takes the key in the store that is in use when it looks. *)

Ask(s) ==
    /\ hold[s] = Free /\ nextOwner <= MaxOwner
    /\ \A t \in Sessions : ~Live(t)
    /\ inUse = "table" => ~HeldOff
    /\ hold' = [hold EXCEPT ![s] = [Free EXCEPT !.state = "waiting", !.owner = nextOwner,
                  !.store = inUse, !.sent = now, !.traces = {inUse}]]
    /\ nextOwner' = nextOwner + 1
    /\ overtaken' = overtaken \ {s}
    /\ UNCHANGED <<now, redis, table, left, sound, world>>

Run(s) ==                          \* create.lua, or a row of the table
    /\ hold[s].state = "waiting" /\ ~hold[s].answered
    /\ Answers(hold[s].store) /\ Nobody(At(hold[s].store))
    /\ Put(hold[s].store, Given(hold[s].owner))
    /\ hold' = [hold EXCEPT ![s].answered = TRUE]
    /\ UNCHANGED <<now, nextOwner, overtaken, left, sound, world>>

Grant(s) ==
    /\ hold[s].state = "waiting" /\ hold[s].answered
    /\ LET h      == hold[s]
           stale  == /\ StaleRule /\ h.store = "table"
                     /\ inUse = "redis" \/ s \in overtaken
           beside == LocalRule /\ \E t \in Sessions \ {s} : Live(t)
           takes  == ~stale /\ ~beside /\ now < h.sent + Lease
           here   == takes /\ h.store = "table"
       IN /\ hold' = [hold EXCEPT ![s] = IF ~takes THEN Free ELSE
                        [h EXCEPT !.state = "held", !.deadline = h.sent + Lease]]
          /\ left' = IF takes THEN left ELSE left \cup Left(h)
          /\ IF h.store = "redis" THEN HearAs(s)
             ELSE /\ stayed' = Stays(here)
                  /\ overtaken' = overtaken \ {s}
                  /\ UNCHANGED <<heard, silent>>
          /\ sound' = (sound /\ ~(here /\ inUse = "table" /\ ~up /\ HasNow(redis, Foreign)))
    /\ UNCHANGED <<now, nextOwner, up, reached, redis, table, inUse>>

\* By unlock, cancel, time limit, or the end of the lease.
End(s, answered) ==
    /\ hold[s].state # "free"
    /\ left' = left \cup Left(hold[s])
    /\ hold' = [hold EXCEPT ![s] = Free]
    /\ IF answered /\ hold[s].store = "redis" THEN HearAs(s)
       ELSE /\ stayed' = Stays(Live(s) /\ hold[s].store = "redis")
            /\ overtaken' = overtaken \ {s}
            /\ UNCHANGED <<heard, silent>>
    /\ UNCHANGED <<now, nextOwner, redis, table, sound, up, reached, inUse>>

---------------------------------------------------------------------------
(* The watchdog. *)

Renew(s) ==                        \* in the store whose word the deadline is
    /\ hold[s].state = "held" /\ Obeys(hold[s].store)
    /\ HasNow(At(hold[s].store), hold[s].owner)
    /\ DeadlineRule => Live(s)
    /\ Put(hold[s].store, Given(hold[s].owner))
    /\ hold' = [hold EXCEPT ![s].deadline = now + Lease]
    /\ Hear(hold[s].store)
    /\ UNCHANGED <<now, nextOwner, up, reached, inUse, left, sound>>

\* A create and a set of the same owner.  Whom somebody elsewhere is ahead of has lost it.
Move(s) ==
    /\ hold[s].state = "held" /\ hold[s].store # inUse /\ Obeys(inUse)
    /\ LET h     == hold[s]
           ours  == Nobody(At(inUse)) \/ HasNow(At(inUse), h.owner)
           moves == Live(s) \/ ~DeadlineRule
       IN /\ ours \/ HasNow(At(inUse), Foreign)
          /\ Put(inUse, IF ours THEN Given(h.owner) ELSE At(inUse))
          /\ left' = IF ours THEN left ELSE left \cup Left(h)
          /\ hold' = [hold EXCEPT ![s] = IF ~ours THEN Free ELSE [h EXCEPT
               !.traces = @ \cup {inUse}, !.store = IF moves THEN inUse ELSE @,
               !.deadline = IF moves THEN now + Lease ELSE @]]
          /\ IF inUse = "redis" THEN Hear("redis")
             ELSE /\ stayed' = Stays(ours /\ moves)
                  /\ UNCHANGED <<heard, silent, overtaken>>
    /\ UNCHANGED <<now, nextOwner, up, reached, inUse, sound>>

GiveBack(l) ==                     \* may be the session's own release, so it is not heard
    /\ l \in left /\ Answers(l.store)
    /\ IF At(l.store).owner = l.owner THEN Put(l.store, [owner |-> None, until |-> 0])
       ELSE UNCHANGED <<redis, table>>
    /\ left' = left \ {l}
    /\ UNCHANGED <<now, nextOwner, overtaken, hold, sound, world>>

Probe ==                           \* asks, and hears or not
    /\ IF up /\ reached THEN Hear("redis")
       ELSE /\ silent' = IF silent = Never THEN now ELSE silent
            /\ UNCHANGED <<heard, stayed, overtaken>>
    /\ UNCHANGED <<now, nextOwner, up, reached, redis, table, inUse, hold, left, sound>>

ToTable ==
    /\ inUse = "redis" /\ silent # Never /\ now - silent >= After
    /\ inUse' = "table"
    /\ UNCHANGED <<now, nextOwner, up, reached, heard, redis, table, known, hold, left, sound>>

ToRedis ==                         \* it has answered for long enough
    /\ inUse = "table" /\ up /\ reached /\ heard /\ silent = Never
    /\ inUse' = "redis"
    /\ UNCHANGED <<now, nextOwner, up, reached, heard, redis, table, known, hold, left, sound>>

---------------------------------------------------------------------------
(* The world. *)

GoDown == /\ up /\ (SeenPremise => heard) /\ up' = FALSE
          /\ UNCHANGED <<now, nextOwner, reached, heard, redis, table, inUse, known, hold, left,
                         sound>>
ComeUp == /\ ~up /\ up' = TRUE /\ heard' = FALSE
          /\ UNCHANGED <<now, nextOwner, reached, redis, table, inUse, known, hold, left, sound>>
Reach  == /\ reached' = ~reached          \* its connection breaks, and cannot be made again; or can
          /\ UNCHANGED <<now, nextOwner, up, heard, redis, table, inUse, known, hold, left, sound>>

ForeignTakes ==
    /\ (up \/ ~DownPremise) /\ Nobody(redis)
    /\ redis' = Given(Foreign)
    /\ heard' = (heard /\ silent = Never)
    /\ UNCHANGED <<now, nextOwner, up, reached, table, inUse, known, hold, left, sound>>

Tick == /\ now < MaxTime /\ now' = now + 1
        /\ UNCHANGED <<nextOwner, redis, table, overtaken, hold, left, sound, world>>

Next ==
    \/ Tick \/ GoDown \/ ComeUp \/ Reach \/ Probe \/ ToTable \/ ToRedis \/ ForeignTakes
    \/ \E l \in left : GiveBack(l)
    \/ \E s \in Sessions : \/ Ask(s) \/ Run(s) \/ Grant(s) \/ Renew(s) \/ Move(s)
                           \/ \E answered \in BOOLEAN : End(s, answered)

Alike == Permutations(Sessions)
Spec == Init /\ [][Next]_vars

---------------------------------------------------------------------------
\* Of this server one session at most, whichever store is in use.
OneHolder == \A s, t \in Sessions : Live(s) /\ Live(t) => s = t

\* The table never gives a key that somebody elsewhere has.
TableIsSound == sound

\* Whatever a store has of this server is known to it.
Known(o, store) ==
    \/ \E s \in Sessions : hold[s].owner = o
    \/ [owner |-> o, store |-> store] \in left
NothingForgotten ==
    /\ redis.owner > 0 /\ now < redis.until => Known(redis.owner, "redis")
    /\ table.owner > 0 /\ now < table.until => Known(table.owner, "table")
=============================================================================
