// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"sort"
	"strings"
	"sync/atomic"
	"time"
)

// multiKind: locks of several keys by one call, beside locks of one.
var multiKind = &Kind{
	name:   "multi",
	prefix: true,
	bare:   true,
	mode:   onlyAlone,
	alone:  modeAlone,
	choose: func(s *Session, _ slot, a *want) { a.fenced = s.chance(0.2) },
	work: []weighted{
		{6, workMulti},
		{4, workMultiTransaction},
		{3, workMultiAgain},
		{2, workSession},
		{2, workTransaction},
		{1, workTwoKeys},
		{1, workMultiVanish},
	},
	redisson: (*RedissonThread).stepMulti,
	shape:    multiSpec,
	specs:    []func() Spec{multiSpec(orphansSpec), multiSpec(exclusionSpec), multiSpec(calmSpec)},
}

// multiSpec: more keys, so that sets overlap without being the same.
func multiSpec(of func() Spec) func() Spec {
	return func() Spec {
		s := of()
		s.keys = 6
		return s
	}
}

var multiCalls int64

func (r *Round) nextMulti() int64 { return atomic.AddInt64(&multiCalls, 1) }

// someKeys are two or more, in any order, now and then one of them twice.
func (s *Session) someKeys() []string {
	n := 2 + s.rng.Intn(len(s.w.keys)-1)
	var keys []string

	for _, i := range s.rng.Perm(len(s.w.keys))[:n] {
		keys = append(keys, s.w.keys[i])
	}
	if s.chance(0.1) {
		keys = append(keys, keys[0])
	}
	return keys
}

func different(keys []string) []string {
	var sorted []string

	seen := map[string]bool{}
	for _, key := range keys {
		if !seen[key] {
			sorted = append(sorted, key)
		}
		seen[key] = true
	}
	sort.Strings(sorted)
	return sorted
}

func array(keys []string) string { return "ARRAY['" + strings.Join(keys, "','") + "']" }

// acquireAll takes the locks of all keys by one call, or none: a line of the history
// for each of them.
func (s *Session) acquireAll(keys []string, a want) bool {
	var calls []*Call

	multi := s.w.nextMulti()
	limit := int64(-1)
	if a.try {
		limit = int64(a.wait)
	}
	if s.lockTimeout > 0 && (limit < 0 || int64(s.lockTimeout) < limit) {
		limit = int64(s.lockTimeout)
	}
	for _, key := range different(keys) {
		at := slot{key: key}
		call := s.call(opLock, at)
		call.Multi, call.Limit, call.Queues = multi, limit, !a.try || a.wait > 0
		if h := s.holds[at]; a.xact && h != nil && h.xact {
			call.Op, call.Queues = opHeld, false
		}
		calls = append(calls, s.w.hist.begin(call))
	}
	name, args := "multi_lock", array(keys)
	if a.xact {
		name = "multi_xact_lock"
	}
	if a.try {
		name = "try_" + name
		args += ", '" + millis(a.wait) + "'"
	}
	before := s.setPhase(phaseAcquiring)
	rows, err := s.exec("SELECT redis_" + name + "(" + args + ")")
	s.setPhase(before)
	end := func(of func(*Call) string) {
		for _, call := range calls {
			s.w.hist.end(call, of(call))
		}
	}
	if err != nil {
		code := s.code(err)
		end(func(call *Call) string {
			call.Lingers = s.crashed
			return code
		})
		s.unsure = !a.xact
		s.cleanUp(calls[0].Start)
		return false
	}
	if a.try && rows[0][0] != "t" {
		end(func(*Call) string { return resultBusy })
		return false
	}
	end(func(call *Call) string {
		if call.Op == opHeld {
			return "true"
		}
		return resultOK
	})
	for _, key := range different(keys) {
		at := slot{key: key}
		if s.holds[at] == nil {
			s.holds[at] = &hold{}
		}
		s.holds[at].certain = calls[0].Start
		if a.xact {
			s.holds[at].xact = true
		} else {
			s.holds[at].session++
		}
	}
	s.setPhase(phaseHolding)
	return true
}

// releaseAll gives back one hold of each key, by one call or by one for each.
func (s *Session) releaseAll(keys []string) bool {
	if s.chance(0.3) {
		for _, key := range different(keys) {
			if !s.release(slot{key: key}) {
				return false
			}
		}
		return true
	}
	var calls []*Call
	for _, key := range different(keys) {
		calls = append(calls, s.w.hist.begin(s.call(opUnlock, slot{key: key})))
	}
	s.setPhase(phaseReleasing)
	rows, err := s.exec("SELECT redis_multi_unlock(" + array(keys) + ")")
	if err != nil {
		for _, call := range calls {
			s.w.hist.end(call, s.code(err))
		}
		s.cleanUp(calls[0].Start)
		return false
	}
	lost := rows[0][0] != "t"
	if lost && !s.lossWarned() {
		s.w.find("errors", "%s: redis_multi_unlock(%s) says that one was not held", s.name, array(keys))
	}
	for _, call := range calls {
		at := slot{key: call.Key}
		h := s.holds[at]
		call.Lingers = s.unanswered()
		if lost && s.w.spec.valid {
			call.Start = h.certain
		}
		s.w.hist.end(call, resultOK)
		h.session--
		if h.session == 0 && !h.xact {
			delete(s.holds, at)
		}
	}
	if lost {
		// Of which of them nobody says: all else is given up, too.
		s.cleanUp(calls[0].Start)
		return false
	}
	s.restPhase()
	return true
}

func (s *Session) multiWant(xact bool) want {
	a := want{xact: xact, try: s.chance(0.5)}

	if a.try && s.chance(0.7) {
		a.wait = time.Duration(s.rng.Intn(3000)) * time.Millisecond
	}
	return a
}

func (s *Session) useOne(keys []string) bool {
	return s.use(slot{key: keys[s.rng.Intn(len(keys))]})
}

func workMulti(s *Session) {
	keys := s.someKeys()
	_ = s.acquireAll(keys, s.multiWant(false)) && s.useOne(keys) && s.releaseAll(keys)
}

func workMultiTransaction(s *Session) {
	keys := s.someKeys()
	if !s.begin() {
		return
	}
	if s.acquireAll(keys, s.multiWant(true)) && !s.useOne(keys) {
		return
	}
	if s.inTx {
		s.endTransaction()
	}
}

// workMultiAgain has one of the keys before: whatever becomes of the call, that one is
// as it was.  The lowest one, so that nobody waits for one in the wrong order.
func workMultiAgain(s *Session) {
	keys := s.someKeys()
	at := slot{key: different(keys)[0]}
	if !s.acquire(at, s.randomWant(false, at)) {
		return
	}
	if s.acquireAll(keys, s.multiWant(false)) {
		if !s.holdCount(at) || !s.releaseAll(keys) {
			return
		}
	} else if s.holds[at] == nil {
		return
	}
	_ = s.holdCount(at) && s.release(at)
}

func workMultiVanish(s *Session) {
	if s.acquireAll(s.someKeys(), s.multiWant(false)) {
		s.think(s.w.spec.hold)
		s.disconnect(s.chance(0.5))
	}
}

// stepMulti is one lock and release of two keys by Redisson, which takes them in the
// order in which they are named.
func (t *RedissonThread) stepMulti(key string) {
	keys := different([]string{key, t.w.keys[t.rng.Intn(len(t.w.keys))]})
	wait := t.rng.Intn(3000)
	multi := t.w.nextMulti()
	var calls []*Call

	for _, key := range keys {
		calls = append(calls, t.w.hist.begin(&Call{Client: t.name, Op: opLock, Key: key,
			Multi: multi, Queues: wait > 0, Limit: int64(redissonLimit)}))
	}
	answer, err := t.j.call(redissonLimit, t.target, "multi.tryLock", strings.Join(keys, ","),
		fmt.Sprint(wait), "-1")
	for i, call := range calls {
		switch {
		case err != nil:
			call.Lingers = true
			t.w.hist.end(call, resultException)
		case answer != "true":
			// RedissonMultiLock.unlockInner ignores that Redis has refused to release a
			// lock that it had taken.
			call.Lingers = !t.giveBack("", keys[i])
			t.w.hist.end(call, resultBusy)
		default:
			t.w.hist.end(call, resultOK)
		}
	}
	if err == nil && answer != "true" {
		return
	}
	if err == nil {
		time.Sleep(time.Duration(t.rng.Int63n(int64(t.w.spec.hold) + 1)))
	}
	for _, key := range keys {
		if err != nil {
			t.giveBack("", key)
			continue
		}
		drop := t.w.hist.begin(&Call{Client: t.name, Op: opDrop, Key: key})
		drop.Lingers = !t.giveBack("", key)
		t.w.hist.end(drop, resultOK)
	}
}

// multis are the calls for several keys, by their number.
func multis(calls []Call) map[int64][]*Call {
	found := map[int64][]*Call{}

	for i := range calls {
		if c := &calls[i]; c.Multi != 0 && c.Op == opLock && c.End != 0 {
			found[c.Multi] = append(found[c.Multi], c)
		}
	}
	return found
}

// checkMultis: who waits for several keys does not do so while all of them are free, and
// is not told that one is busy when none is.
func checkMultis(calls []Call, faults []Window, b Bounds) []Finding {
	var found []Finding

	keys := byKey(calls)
	long := faultSpans(faults, b.lease+recovery, false)
	for _, group := range multis(calls) {
		c := group[0]
		var names []string
		taken, early := faultSpans(faults, c.recovers(b), false), append([]span{}, long...)

		for _, part := range group {
			others := withoutClient(keys[part.Key], c.Client)
			names = append(names, part.Key)
			taken = append(taken, occupied(others, b, modeAlone, false)...)
			early = append(early, occupied(others, b, modeAlone, true)...)
		}
		at := span{c.Start, c.End}
		if free := longestGap(at, merge(taken)); c.waits() && free.to-free.from > int64(wakeBound) {
			found = append(found, Finding{"wake-ups", fmt.Sprintf(
				"%s waited for %s from %.3f to %.3f s (%s), though all were free from %.3f to %.3f s",
				c.Client, strings.Join(names, " and "), seconds(c.Start), seconds(c.End), c.Result,
				seconds(free.from), seconds(free.to))})
		}
		if c.Result == resultBusy && overlap(at, merge(early)) == 0 {
			found = append(found, Finding{"busy", fmt.Sprintf(
				"%s was told at %.6f s that one of %s is busy, though nobody had any of them",
				c.Client, seconds(c.Start), strings.Join(names, " and "))})
		}
	}
	return found
}

// withoutClient are the calls of all others.
func withoutClient(calls []Call, but string) []Call {
	var others []Call

	for i := range calls {
		if calls[i].Client != but {
			others = append(others, calls[i])
		}
	}
	return others
}
