// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"time"
)

// Rounds with independent masters.  A master that was started has no vote for as long as
// the longest lease that there can be.

const mastersLease = 5 * time.Second

// Longer than what any session asks for
const mastersSettings = "lockredis.max_lease = '10s'\nlockredis.lease = '5s'\n"

// What a master has got while its clock was wrong stays for longer.
const mastersSettle = 2 * mastersLease

// The kinds that they can have; those that are taken by RedissonRedLock, too, and the
// one that is taken by redsync.
var mastersKinds = []*Kind{lockKind.atMasters(), tokenKind.atMasters(), multiKind.atMasters()}

func (k Kind) atMasters() *Kind {
	if k.redisson != nil {
		k.redisson = (*RedissonThread).stepRed
	}
	specs := []func() Spec{mastersSpec, validSpec, forgetfulSpec, hotSpec, calmSpec}
	if k.name == "lock" {
		specs = []func() Spec{mastersSpec, validSpec, forgetfulSpec, fencingSpec, hotSpec,
			guardSpec, deadlockSpec, calmSpec}
	}
	k.specs = nil
	for _, spec := range specs {
		k.specs = append(k.specs, k.shaped(spec))
	}
	return &k
}

// mastersSpec: few are away, and most for less than a lease.
func mastersSpec() Spec {
	s := ordinary("masters away")
	s.settles = mastersSettle
	return s
}

// forgetfulSpec: a few at a time forget what they have, and one after the other does.
// No lock is lost by that, also none that is held for long.
func forgetfulSpec() Spec {
	s := mastersSpec()
	s.name = "masters that forget"
	s.forgets = true
	s.redisson = 0
	s.faults = func(f *Fault) bool { return !f.breaks && !f.loses && !f.crash }
	s.work = func(session *Session) {
		if session.chance(0.15) {
			workLong(session)
		} else {
			anyWork(session)
		}
	}
	return s
}

// validSpec: anything that takes locks, but no time and not those of who has the vote;
// for longer than a lease.  What is said to be held is nobody else's.
func validSpec() Spec {
	s := forgetfulSpec()
	s.name = "validity"
	s.losses = true
	s.valid = true
	s.onLost = []string{"mark", "cancel", "terminate"}
	s.faults = func(f *Fault) bool { return !f.breaks }
	s.gap = 300 * time.Millisecond
	return s
}

func mastersSpecOf(k *Kind, n int) Spec {
	s := k.specs[n%len(k.specs)]().of(k)
	s.lease = mastersLease
	if s.redisson > 0 && k.redisson == nil {
		s.redisson = 0
	}
	if k.name == "token" {
		// Nobody renews it, so nobody puts it there again.
		s.losses, s.valid = s.losses || s.forgets, s.valid || s.forgets
		if !s.forgets {
			s.redsync = 2
		}
	}
	return s
}

// workLong keeps a lock for up to two leases, and asks again and again whether it is
// still there.
func workLong(s *Session) {
	if s.w.spec.kind.name == "token" {
		workTokenLong(s)
		return
	}
	at := s.slot()
	a := s.randomWant(false, at)
	a.lease = 0
	if !s.acquire(at, a) {
		return
	}
	for until := time.Now().Add(s.forLong()); time.Now().Before(until) && !s.w.over(); {
		s.think(200 * time.Millisecond)
		if !s.isHeld(at) {
			return
		}
		if s.w.spec.valid && !s.lastHeld {
			break
		}
	}
	s.release(at)
}

func (s *Session) forLong() time.Duration {
	return time.Duration(s.rng.Int63n(int64(s.w.spec.lease * 3 / 2)))
}

// workTokenLong extends it itself.
func workTokenLong(s *Session) {
	l := s.takeToken(s.key(), s.w.spec.lease)
	if l == nil {
		return
	}
	for until := time.Now().Add(s.forLong()); time.Now().Before(until) && !l.over(); {
		s.think(200 * time.Millisecond)
		if !s.askToken(l) {
			break
		}
	}
	s.giveToken(l, s)
}

// withoutTokens: a master that forgets its locks forgets its counters.
func withoutTokens(calls []Call) []Call {
	for i := range calls {
		calls[i].Token = 0
	}
	return calls
}

// For as long as that it repeats what masters do not answer, each by itself.
const redLimit = 3 * redissonLimit

// stepRed is one lock and release by RedissonRedLock, which has another owner at each
// master, and cannot say what it has.
func (t *RedissonThread) stepRed(key string) {
	wait := t.rng.Intn(3000)
	call := t.w.hist.begin(&Call{Client: t.name, Op: opLock, Key: key,
		Queues: wait > 0, Limit: int64(redissonLimit)})
	answer, err := t.j.call(redissonLimit, t.target, "red.tryLock", key, fmt.Sprint(wait), "-1")
	switch {
	case err != nil:
		// It asks one master after the other, and may have it in the end, when nobody waits
		// for its answer any more: what comes next waits for that.
		t.j.call(redLimit, t.target, "red.unlock", key)
		call.Lingers, call.Limit = true, -1
		t.w.hist.end(call, resultException)
		return
	case answer != "true":
		// What it has got at a few is given back, or ends with its lease.
		call.Lingers = true
		t.w.hist.end(call, resultBusy)
		return
	}
	t.w.hist.end(call, resultOK)
	time.Sleep(time.Duration(t.rng.Int63n(int64(t.w.spec.hold) + 1)))
	drop := t.w.hist.begin(&Call{Client: t.name, Op: opDrop, Key: key})
	_, err = t.j.call(redissonLimit, t.target, "red.unlock", key)
	drop.Lingers = err != nil
	t.w.hist.end(drop, resultOK)
}
