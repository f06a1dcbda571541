// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// conditionKind: bounded buffers, each under a lock: who puts something in waits while
// it is full, who takes something out while it is empty, and each tells the others.
var conditionKind = &Kind{
	name:   "condition",
	prefix: true,
	mode:   onlyAlone,
	alone:  modeAlone,
	choose: func(s *Session, _ slot, a *want) { a.fair = s.chance(0.3) },
	work:   []weighted{{1, workBuffer}},
	watch:  (*Round).endWaits,
	end:    (*Round).forgetDead,
	sweep:  (*Round).sweepQueues,
	shape:  conditionSpec,
	specs: []func() Spec{conditionSpec(orphansSpec), conditionSpec(hotSpec),
		conditionSpec(exclusionSpec), conditionSpec(calmSpec)},
}

func conditionSpec(of func() Spec) func() Spec {
	return func() Spec {
		s := of()
		s.keys = 2
		s.sessions = 6
		s.think = 20 * time.Millisecond
		s.lockTimeouts = []time.Duration{0, 0, 0, 2 * time.Second}
		return s
	}
}

// A Buffer is what a lock guards.  It is in the memory of this program, so what becomes
// of a session in the middle of a change leaves no half of one.
type Buffer struct {
	mu      sync.Mutex
	items   int
	changes []Change
}

// A Change is what was in it from some moment on.
type Change struct {
	at    int64
	items int
	taken bool // something was taken out, not put in
}

const bufferSize = 2

// change does it if it can be done.
func (b *Buffer) change(by int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.items+by < 0 || b.items+by > bufferSize {
		return false
	}
	b.items += by
	b.changes = append(b.changes, Change{now(), b.items, by < 0})
	return true
}

// Under the first key all wait for one condition, and all are told of each change.
func (r *Round) conditionOf(key string, by int) string {
	switch {
	case key == r.keys[0]:
		return ""
	case by > 0:
		return "not full"
	}
	return "not empty"
}

func (r *Round) tell(key string, by int) string {
	if key == r.keys[0] {
		return "SELECT redis_condition_notify_all('" + key + "')"
	}
	return "SELECT redis_condition_notify('" + key + "', '" + r.conditionOf(key, -by) + "')"
}

func (r *Round) buffer(key string) *Buffer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buffers[key] == nil {
		r.buffers[key] = &Buffer{}
	}
	return r.buffers[key]
}

// putsIn: every other session does, the rest take things out; always the same ones, and
// with the same key, so that never all who use it wait.
func putsIn(client string) bool { return client[len(client)-1]%2 == 0 }

func (s *Session) ownKey() string {
	return s.w.keys[int(s.name[len(s.name)-1]-'1')/2%len(s.w.keys)]
}

// workBuffer puts something in or takes it out.
func workBuffer(s *Session) {
	at := slot{key: s.ownKey()}
	by := -1
	if putsIn(s.name) {
		by = 1
	}
	if !s.acquire(at, want{fair: s.chance(0.3)}) {
		return
	}
	if s.chance(0.2) && !s.acquire(at, want{}) {
		return
	}
	b := s.w.buffer(at.key)
	for !b.change(by) {
		if s.w.over() || !s.waitFor(at, s.w.conditionOf(at.key, by)) {
			break
		}
		if s.chance(0.1) && !s.holdCount(at) {
			return
		}
		if s.w.over() {
			break
		}
	}
	if s.holds[at] == nil {
		return
	}
	if !s.w.spec.silent && !s.told(at.key, by) {
		return
	}
	for s.holds[at] != nil && s.release(at) {
	}
}

// told tells of a change.  One that nobody was told of is told by somebody else: that
// this takes its time is no fault of who waits.
func (s *Session) told(key string, by int) bool {
	start := now()
	if _, err := s.exec(s.w.tell(key, by)); err == nil {
		return true
	}
	w := s.w.hist.beginFault("a change is told later", false)
	s.cleanUp(start)
	s.w.tellAgain(key)
	s.w.hist.endFault(w)
	return false
}

// tellAgain tells all who wait for anything of that key, until that works.
func (r *Round) tellAgain(key string) {
	for tries := 0; tries < 100; tries++ {
		node := r.env.nodes[tries%len(r.env.nodes)]
		_, err := node.query(fmt.Sprintf("SET lock_timeout = '5s'; SELECT redis_lock('%s'), "+
			"redis_condition_notify_all('%[1]s'), redis_condition_notify_all('%[1]s', 'not full'), "+
			"redis_condition_notify_all('%[1]s', 'not empty'), redis_unlock('%[1]s')", key))
		if err == nil {
			return
		}
		sleepMillis(100)
	}
}

// endWaits lets nobody wait for what nobody does any more.
func (r *Round) endWaits() {
	for !r.over() {
		sleepMillis(50)
	}
	for atomic.LoadInt32(&r.waiting) > 0 {
		for _, key := range r.keys {
			r.tellAgain(key)
		}
		sleepMillis(100)
	}
}

// forgetDead: what Redis remembers of those of a dead server ends by itself, or with the
// next who waits or tells.
func (r *Round) forgetDead(time.Duration) {
	if !r.crashes() {
		return
	}
	for _, store := range r.env.stores() {
		reply, err := store.cmd("KEYS", "lockredis_condition_*")
		if err != nil {
			continue
		}
		for _, key := range reply.([]interface{}) {
			if ttl, err := store.cmd("PTTL", key); err == nil && ttl.(int64) > 0 {
				store.cmd("DEL", key)
			}
		}
	}
}

// waitFor gives the lock back, sleeps until somebody tells that condition, and has the
// lock again; false: it has not.
func (s *Session) waitFor(at slot, condition string) bool {
	h := s.holds[at]
	limit := "NULL"
	if s.chance(0.2) {
		limit = "'" + millis(time.Duration(s.rng.Intn(1500))*time.Millisecond) + "'"
	}
	call := s.call(opWait, at)
	call.Sleeps, call.Condition, call.Limit = true, condition, -1
	s.w.hist.begin(call)
	atomic.AddInt32(&s.w.waiting, 1)
	before := s.setPhase(phaseAcquiring)
	rows, err := s.exec("SELECT redis_condition_wait('" + at.key + "', " + limit + ", '" +
		condition + "')")
	s.setPhase(before)
	atomic.AddInt32(&s.w.waiting, -1)
	code := ""
	if err != nil {
		code = s.code(err)
		s.gaveBack = true
	} else {
		code = map[string]string{"t": "told", "f": "its time was over"}[rows[0][0]]
	}
	call.Lingers = s.crashed
	s.w.hist.end(call, code)
	drop := *call
	drop.Op, drop.Result = opDrop, resultOK
	s.w.hist.add(drop)
	if err != nil {
		// It may have it again, and the statement failed; or has lost it by waiting.
		delete(s.holds, at)
		s.unsure = true
		s.cleanUp(call.Start)
		s.gaveBack = false
		return false
	}
	again := *call
	again.Op, again.Result, again.Count = opAgain, resultOK, h.session
	s.w.hist.add(again)
	return true
}

// checkConditions: nobody sleeps while what he waits for is there, nobody does anything
// about that, and nothing is broken.
func checkConditions(calls []Call, faults []Window, buffers map[string]*Buffer, b Bounds,
	crashes bool) []Finding {
	var found []Finding

	after := recovery
	if crashes {
		// Those of a dead server are passed over when their time has ended.
		after += b.lease
	}
	broken := faultSpans(faults, after, false)
	for i := range calls {
		c := &calls[i]
		if c.Op != opWait || c.End == 0 || buffers[c.Key] == nil {
			continue
		}
		puts := putsIn(c.Client)
		for _, there := range buffers[c.Key].untouched(puts) {
			at := span{c.Start, c.End}
			if there.from > at.from {
				at.from = there.from
			}
			if there.to < at.to {
				at.to = there.to
			}
			if at.to <= at.from {
				continue
			}
			if free := longestGap(at, broken); free.to-free.from > int64(wakeBound) {
				found = append(found, Finding{"wake-ups", fmt.Sprintf(
					"%s waited from %.3f to %.3f s for %s to be other than %s (%s), which it was from "+
						"%.3f to %.3f s", c.Client, seconds(c.Start), seconds(c.End), c.Key,
					map[bool]string{true: "full", false: "empty"}[puts], c.Result,
					seconds(free.from), seconds(free.to))})
			}
		}
	}
	return found
}

// untouched are the times when there was room (or something), and nobody made use of it.
func (b *Buffer) untouched(room bool) []span {
	var spans []span
	from := int64(0)
	if !room {
		from = 1 << 62
	}
	for _, change := range b.changes {
		if change.taken != room {
			// Somebody has made use of it.
			spans = append(spans, span{from, change.at})
			from = change.at
		}
		there := change.items > 0
		if room {
			there = change.items < bufferSize
		}
		switch {
		case !there:
			from = 1 << 62
		case from == 1<<62:
			from = change.at
		}
	}
	return append(spans, span{from, 1 << 62})
}
