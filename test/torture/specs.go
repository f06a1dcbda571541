// Copyright (c) 2026, lockredis contributors

package main

import "time"

// The kinds of rounds.  The lease is what decides: faults that are shorter must
// not break anything that a lock promises; those that are longer, or take the
// data of Redis, must not get past the fencing.

const (
	longLease  = 8 * time.Second
	shortLease = 1500 * time.Millisecond
)

func ordinary(name string) Spec {
	return Spec{
		name:         name,
		lease:        longLease,
		budget:       2 * time.Second,
		guard:        "lease",
		onLost:       []string{"mark", "cancel"},
		handoffs:     []int{0, 4, 32},
		sessions:     5,
		bare:         2,
		redisson:     2,
		keys:         3,
		think:        60 * time.Millisecond,
		hold:         40 * time.Millisecond,
		work:         anyWork,
		faults:       func(f *Fault) bool { return !f.breaks && !f.forgets },
		gap:          700 * time.Millisecond,
		lockTimeouts: []time.Duration{0, 0, 500 * time.Millisecond, 2 * time.Second},
	}
}

// exclusionSpec: any work, any fault that is shorter than the lease.
func exclusionSpec() Spec { return ordinary("exclusion") }

// orphansSpec: a lease that outlasts the round, and nothing that kills a server: a
// lock that was taken unnoticed, and not given back, is still there at the end.
func orphansSpec() Spec {
	s := ordinary("orphans")
	s.lease = 20 * time.Second
	s.budget = time.Second
	s.faults = func(f *Fault) bool { return !f.breaks && !f.forgets && !f.crash }
	return s
}

// calmSpec: no fault at all, so that each wake-up and each "busy" is judged.
func calmSpec() Spec {
	s := ordinary("calm")
	s.faults = nil
	s.gap = 200 * time.Millisecond
	return s
}

// hotSpec: one key, nobody rests; canceled and terminated at the moment of a
// hand-over, but nothing that would excuse a waiter who is not woken.
func hotSpec() Spec {
	s := ordinary("hot key")
	s.keys = 1
	s.sessions = 7
	s.bare = 1
	s.think = 10 * time.Millisecond
	s.hold = 10 * time.Millisecond
	s.lockTimeouts = []time.Duration{0, 100 * time.Millisecond, 2 * time.Second}
	s.faults = func(f *Fault) bool { return f.sessions && f.mild }
	s.gap = 300 * time.Millisecond
	return s
}

// deadlockSpec: keys taken in any order.  Within a server a deadlock is found;
// across servers a time limit ends it.
func deadlockSpec() Spec {
	s := ordinary("deadlocks")
	s.deadlocks = true
	s.work = func(session *Session) {
		if session.chance(0.7) {
			workTwoKeys(session)
		} else {
			anyWork(session)
		}
	}
	s.keys = 4
	s.lockTimeouts = []time.Duration{time.Second, 2 * time.Second}
	s.faults = func(f *Fault) bool { return f.sessions && !f.crash }
	return s
}

// fencingSpec: everything, for longer than the lease, with Redis losing its data
// and its time.
func fencingSpec() Spec {
	s := ordinary("fencing")
	s.lease = shortLease
	s.losses = true
	s.work = workFenced
	s.bareWrite = (*Session).writeFenced
	s.redisson = 0
	s.onLost = []string{"mark", "cancel", "terminate"}
	s.faults = func(*Fault) bool { return true }
	s.gap = 300 * time.Millisecond
	return s
}

// guardSpec: sessions that are stopped for longer than their lease before they
// commit.  A stop after the guard has looked, which nothing but fencing can help
// against, is not among the faults.
func guardSpec() Spec {
	s := fencingSpec()
	s.name = "commit guard"
	s.lease = 2 * time.Second
	s.work = workGuarded
	s.bareWrite = func(writer *Session, key string, _ int64) { writer.writePlain(key) }
	s.mishaps = 0.1
	s.mishap = stopForLong
	s.keys = 2
	s.onLost = []string{"mark"}
	s.faults = func(f *Fault) bool {
		return f.name == "cancels" || f.name == "terminates" || f.name == "statement_timeout"
	}
	return s
}

// verifySpec: locks that are deleted before their holders commit.
func verifySpec() Spec {
	s := guardSpec()
	s.name = "commit guard, verify"
	s.guard = "verify"
	s.mishaps = 0.3
	s.mishap = loseKey
	return s
}

// sentinelSpec: each lock is confirmed by all replicas, so that no failover loses it
// or grants it twice.  What is given back is not confirmed, and may be there again
// after a failover, until its lease has ended.
func sentinelSpec() Spec {
	s := ordinary("failovers, confirmed")
	s.replicas = 2
	s.lease = 20 * time.Second
	s.settles = s.lease
	s.bare = 0
	s.redisson = 0
	s.gap = time.Second
	return s
}

// sentinelFencingSpec: not confirmed, so that locks are lost and granted twice, and
// held by whoever else there is; the fencing holds.
func sentinelFencingSpec() Spec {
	s := fencingSpec()
	s.name = "failovers, fenced"
	s.redisson = 2
	s.gap = time.Second
	return s
}

// of is such a round of a kind of lock.
func (s Spec) of(k *Kind) Spec {
	s.kind = k
	if k.prefix {
		s.name = k.name + ", " + s.name
	}
	if !k.bare {
		s.bare = 0
	}
	if k.redisson == nil {
		s.redisson = 0
	}
	return s
}

// lockSpecs are the rounds with locks that one client has alone.
var lockSpecs = []func() Spec{exclusionSpec, fencingSpec, hotSpec, orphansSpec, guardSpec,
	fencingSpec, deadlockSpec, exclusionSpec, calmSpec, orphansSpec, fencingSpec, hotSpec,
	verifySpec}

// specOf is what the n-th round of these kinds is.
func specOf(topology string, power bool, kinds []*Kind, n int) Spec {
	k := kinds[n%len(kinds)]
	n /= len(kinds)
	specs := k.specs
	if power && (topology == "one" || topology == "table") {
		return powerSpecOf(k, n)
	}
	switch topology {
	case "sentinel":
		specs = []func() Spec{k.shaped(sentinelSpec)}
		if k == lockKind {
			specs = []func() Spec{sentinelSpec, sentinelFencingSpec, sentinelSpec}
		}
	case "masters":
		return mastersSpecOf(k, n)
	}
	return specs[n%len(specs)]().of(k)
}
