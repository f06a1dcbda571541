// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"sort"
	"sync/atomic"
	"time"
)

// permitKind: at most so many at a time.  Those of sessions, by id, and Redisson's.
var permitKind = &Kind{
	name:   "permit",
	prefix: true,
	ends:   true,
	mode:   func(*Session) string { return modePermit },
	alone:  modePermit,
	choose: choosePermit,
	work: []weighted{
		{6, workSession},
		{4, workPermitTransaction},
		{2, workPermits},
		{2, workSavepoint},
		{2, workTwoKeys},
		{1, workExtend},
		{1, workUnlockAll},
		{1, workVanish},
		{3, workPermitById},
	},
	begin:    (*Round).initPermits,
	end:      (*Round).endPermits,
	redisson: (*RedissonThread).stepPermit,
	specs:    []func() Spec{orphansSpec, hotSpec, exclusionSpec, calmSpec},
}

// How many there are of each key
const permits = 3

// choosePermit: who has one takes no second one if he would have to wait for it, since
// all who have one might do so.
func choosePermit(s *Session, at slot, a *want) {
	if s.holds[at] != nil {
		a.try, a.wait = true, 0
	}
}

func (r *Round) initPermits() error {
	for _, key := range r.keys {
		sql := fmt.Sprintf("SELECT redis_permit_set('%s', %d)", key, permits)
		if err := patiently(func() error { _, err := r.env.primary().query(sql); return err }); err != nil {
			return err
		}
	}
	return nil
}

// endPermits: all of them are free in the end; what is left of a semaphore is its number.
func (r *Round) endPermits(patience time.Duration) {
	if atomic.LoadInt32(&r.strays) > 0 {
		patience += r.spec.lease
	}
	for _, key := range r.keys {
		free := ""
		for end := time.Now().Add(patience); time.Now().Before(end); sleepMillis(200) {
			rows, err := r.env.primary().query("SELECT redis_permit_available('" + key + "')")
			if err == nil {
				if free = rows[0][0]; free == fmt.Sprint(permits) {
					break
				}
			}
		}
		if free != fmt.Sprint(permits) {
			r.find("leftovers", "%s permits of %s are free in the end, not %d", free, key, permits)
		}
		r.env.forget(key, "{"+key+"}:timeout")
	}
}

func workPermitTransaction(s *Session) {
	at := s.slot()
	if !s.begin() {
		return
	}
	if s.acquire(at, s.randomWant(true, at)) && !s.use(at) {
		return
	}
	if s.inTx {
		s.endTransaction()
	}
}

// workPermits has several of one key, some of its session and one of a transaction.
func workPermits(s *Session) {
	at := s.slot()
	n := 0
	for ; n < 3 && (n == 0 || s.chance(0.6)); n++ {
		if !s.acquire(at, s.randomWant(false, at)) {
			break
		}
	}
	if s.holds[at] != nil && s.chance(0.4) {
		if !s.begin() {
			return
		}
		if s.acquire(at, s.randomWant(true, at)) {
			if !s.holdCount(at) {
				return
			}
			if s.chance(0.5) {
				// One that is given back meanwhile is one of the session's.
				if !s.release(at) || !s.holdCount(at) {
					return
				}
			}
		}
		if s.inTx && !s.endTransaction() {
			return
		}
	}
	for s.holds[at] != nil {
		if !s.use(at) || !s.release(at) {
			return
		}
	}
}

// workPermitById has one without a session, and gives it back by another connection.
func workPermitById(s *Session) {
	at := s.slot()
	wait := time.Duration(s.rng.Intn(2000)) * time.Millisecond
	call := s.call(opLock, at)
	call.Client = s.name + " by id"
	call.Queues, call.Limit = wait > 0, int64(wait)
	if s.lockTimeout > 0 && int64(s.lockTimeout) < call.Limit {
		call.Limit = int64(s.lockTimeout)
	}
	s.w.hist.begin(call)
	before := s.setPhase(phaseAcquiring)
	rows, err := s.exec(fmt.Sprintf("SELECT redis_try_permit_acquire('%s', '%s', '%s')",
		at.key, millis(wait), millis(s.w.spec.lease)))
	s.setPhase(before)
	if err != nil {
		code := s.code(err)
		// One whose id did not arrive, as the statement was interrupted at its end, stays
		// until its lease ends.
		if s.crashed || code[:2] == "57" || s.dead() {
			call.Lingers = true
			atomic.AddInt32(&s.w.strays, 1)
		}
		s.w.hist.end(call, code)
		s.cleanUp(call.Start)
		return
	}
	id := rows[0][0]
	if id == "" {
		s.w.hist.end(call, resultBusy)
		return
	}
	s.w.hist.end(call, resultOK)
	s.think(s.w.spec.hold)
	free := s.w.hist.begin(&Call{Client: call.Client, Op: opUnlock, Key: at.key, Mode: at.mode})
	for tries := 0; tries < patientTries; tries++ {
		node := s.w.env.nodes[tries%len(s.w.env.nodes)]
		rows, err := node.query("SELECT redis_permit_release('" + at.key + "', '" + id + "')")
		if err == nil {
			if rows[0][0] != "t" && tries == 0 {
				s.w.lost(s.name + ": redis_permit_release(" + at.key + ") says that it was not had")
			}
			s.w.hist.end(free, resultOK)
			return
		}
		sleepMillis(200)
	}
	free.Lingers = true
	s.w.hist.end(free, resultOK)
}

// stepPermit is one of Redisson, which does not renew it.
func (t *RedissonThread) stepPermit(key string) {
	wait := t.rng.Intn(2000)
	call := t.w.hist.begin(&Call{Client: t.name, Op: opLock, Key: key, Mode: modePermit,
		Queues: wait > 0, Limit: int64(redissonLimit)})
	id, err := t.j.call(redissonLimit, t.target, "permit.tryAcquire", key, fmt.Sprint(wait),
		fmt.Sprint(t.w.spec.lease.Milliseconds()))
	if err != nil {
		// It repeats requests by itself, and may have one: that ends with its lease.
		call.Lingers = true
		atomic.AddInt32(&t.w.strays, 1)
		t.w.hist.end(call, resultException)
		return
	}
	if id == "null" {
		t.w.hist.end(call, resultBusy)
		return
	}
	t.w.hist.end(call, resultOK)
	time.Sleep(time.Duration(t.rng.Int63n(int64(t.w.spec.hold) + 1)))
	// It may wait for 60 s for an answer of a Redis that has died (Driver.java).
	free := t.w.hist.begin(&Call{Client: t.name, Op: opUnlock, Key: key, Mode: modePermit,
		Limit: -1})
	for tries := 0; ; tries++ {
		if _, err = t.j.call(redissonLimit, t.target, "permit.release", key, id); err == nil {
			break
		}
		if tries == 20 {
			free.Lingers = true
			break
		}
		sleepMillis(200)
	}
	t.w.hist.end(free, resultOK)
}

// For so long at most nobody of a server asks after a release that others were told of.
const heldBack = 500 * time.Millisecond

// permitStep: never more than there are.
func permitStep(s lockState, c Call) (bool, interface{}) {
	n := &s.readers[c.number]

	switch c.Op {
	case opLock:
		sum := 0
		for _, had := range s.readers {
			sum += int(had)
		}
		*n++
		return sum < permits, s
	case opUnlock:
		if *n == 0 {
			return false, s
		}
		*n--
		return true, s
	}
	return readStep(s, c)
}

// allHad are the times when all permits were held, or may have been; occupied() is the
// same of locks.
func allHad(calls []Call, b Bounds, early bool) []span {
	var had, blocked []span

	open := map[string][]int64{} // since when the client has each
	for i := range calls {
		c := &calls[i]
		end := c.End
		if end == 0 {
			end = 1 << 62
		}
		lingering := end
		if c.Lingers {
			lingering += int64(b.lease) + int64(recovery)
		} else if c.Late {
			lingering += int64(recovery)
		}
		switch c.Op {
		case opLock:
			switch c.Result {
			case resultOK:
				from := end
				if early {
					from = c.Start
				}
				open[c.Client] = append(open[c.Client], from)
			case resultBusy:
				if early {
					// In the queue, and so in the way of a try.
					blocked = append(blocked, span{c.Start, end})
				}
			default:
				if !c.Lingers {
					lingering += int64(recovery)
				}
				from := c.Start
				if c.Queues && !early && !c.Lingers {
					from = end
				}
				had = append(had, span{from, lingering})
				if early {
					blocked = append(blocked, span{c.Start, end})
				}
			}
			if early && c.Queues {
				blocked = append(blocked, span{c.Start, end})
			}
		case opUnlock, opDrop:
			if early {
				// Sessions of its server hold back after a release, for somebody elsewhere.
				blocked = append(blocked, span{c.Start, end + int64(heldBack)})
			}
			for len(open[c.Client]) > 0 {
				last := len(open[c.Client]) - 1
				had = append(had, span{open[c.Client][last], lingering})
				open[c.Client] = open[c.Client][:last]
				if c.Op == opUnlock {
					break
				}
			}
		}
	}
	for _, froms := range open {
		for _, from := range froms {
			had = append(had, span{from, 1 << 62})
		}
	}
	return append(blocked, covered(had, permits)...)
}

// covered are the times that at least so many of the spans have in common.
func covered(spans []span, n int) []span {
	type edge struct {
		at int64
		by int
	}
	var edges []edge
	var found []span

	for _, s := range spans {
		edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
	}
	sort.Slice(edges, func(i, j int) bool {
		if edges[i].at != edges[j].at {
			return edges[i].at < edges[j].at
		}
		return edges[i].by > edges[j].by
	})
	depth, from := 0, int64(0)
	for _, e := range edges {
		before := depth
		depth += e.by
		if before < n && depth >= n {
			from = e.at
		}
		if before >= n && depth < n {
			found = append(found, span{from, e.at})
		}
	}
	return found
}
