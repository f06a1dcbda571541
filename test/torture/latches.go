// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"sort"
	"strings"
	"sync/atomic"
	"time"
)

// latchKind: each count counts once, whatever becomes of its answer, so nobody who waits
// goes on before as many were begun as the latch was set to; then all do.
var latchKind = &Kind{
	name:     "latch",
	prefix:   true,
	mode:     onlyAlone,
	alone:    modeAlone,
	choose:   func(*Session, slot, *want) {},
	work:     []weighted{{1, workLatch}},
	begin:    (*Round).initLatches,
	watch:    (*Round).endLatches,
	end:      (*Round).forgetLatches,
	redisson: (*RedissonThread).stepLatch,
	specs: []func() Spec{withoutRedisson(orphansSpec), hotSpec, withoutRedisson(exclusionSpec),
		calmSpec},
}

// To how much a latch is set
const latchCount = 4

// A Latch is used until it was counted down.
type Latch struct {
	key    string
	place  int     // among those in use
	downs  []*Call // one for each that was to count
	begun  int
	ended  int
	unsure bool
	free   int64 // since when it surely was deleted or counted down by somebody else; 0: not
}

func (r *Round) initLatches() error {
	r.latches = make([]*Latch, len(r.keys))
	for i := range r.keys {
		if err := patiently(func() error { return r.setLatch(i) }); err != nil {
			return err
		}
	}
	return nil
}

// newLatch notes the latch first: Redis may have it even if there was no answer.
func (r *Round) newLatch(place int) (*Latch, error) {
	l := &Latch{place: place,
		key: fmt.Sprintf("%s+%d", r.keys[place], atomic.AddInt64(&r.writerSeed, 1))}
	r.mu.Lock()
	r.everyLatch = append(r.everyLatch, l)
	r.mu.Unlock()
	_, err := r.env.primary().query(fmt.Sprintf("SELECT redis_latch_init('%s', %d)", l.key, latchCount))
	return l, err
}

// claim is one of the counts of a latch in use; nil: others are at it.
func (r *Round) claim(client string, n int) (*Latch, *Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.latches[n%len(r.latches)]
	if l.begun == latchCount {
		return nil, nil
	}
	l.begun++
	call := &Call{Client: client, Op: opDown, Key: l.key}
	l.downs = append(l.downs, call)
	return l, call
}

// counted ends one; who is the last makes the next latch.  If it is not known whether all
// have counted the latch is deleted, which lets everybody go on.
func (r *Round) counted(l *Latch, unsure bool) {
	r.mu.Lock()
	l.ended++
	l.unsure = l.unsure || unsure
	last := l.ended == latchCount
	unsure = l.unsure
	r.mu.Unlock()
	if !last {
		return
	}
	if unsure {
		r.deleteLatch(l)
	}
	_ = patiently(func() error { return r.setLatch(l.place) })
}

// setLatch: a new one is used at that place from now on.
func (r *Round) setLatch(place int) error {
	next, err := r.newLatch(place)
	if err == nil {
		r.mu.Lock()
		r.latches[place] = next
		r.mu.Unlock()
	}
	return err
}

func (r *Round) deleteLatch(l *Latch) {
	r.mu.Lock()
	if l.free == 0 {
		l.free = now()
	}
	r.mu.Unlock()
	for tries := 0; tries < patientTries; tries++ {
		if _, err := r.env.nodes[tries%len(r.env.nodes)].query("SELECT redis_latch_delete('" + l.key + "')"); err == nil {
			return
		}
		sleepMillis(200)
	}
}

// endLatches lets nobody wait for what nobody counts any more.
func (r *Round) endLatches() {
	for !r.over() {
		sleepMillis(50)
	}
	for atomic.LoadInt32(&r.waiting) > 0 {
		r.mu.Lock()
		latches := append([]*Latch{}, r.latches...)
		r.mu.Unlock()
		for _, l := range latches {
			r.deleteLatch(l)
		}
		sleepMillis(100)
	}
}

// forgetLatches: those in use stay when nobody counts any more, as do notes of counts.
func (r *Round) forgetLatches(patience time.Duration) {
	r.env.waitForOwed(patience)
	for _, l := range r.everyLatch {
		r.env.forget(l.key, "lockredis_tickets:{"+l.key+"}")
	}
}

func workLatch(s *Session) {
	n := s.rng.Intn(len(s.w.keys))
	if !putsIn(s.name) {
		s.await(n)
		return
	}
	l, call := s.w.claim(s.name, n)
	if l == nil {
		s.think(20 * time.Millisecond)
		return
	}
	s.w.hist.begin(call)
	s.setPhase(phaseReleasing)
	var err error
	if s.chance(0.3) {
		if _, err = s.exec("BEGIN"); err == nil {
			s.inTx = true
			_, err = s.exec("SELECT redis_latch_xact_count_down('" + l.key + "')")
			if err == nil {
				_, err = s.exec("COMMIT")
			}
			s.inTx = err != nil
		}
		call.Late = true
	} else {
		_, err = s.exec("SELECT redis_latch_count_down('" + l.key + "')")
		call.Late = err != nil || s.unanswered()
	}
	code := resultOK
	if err != nil {
		code = s.code(err)
	}
	s.w.hist.end(call, code)
	// A server that crashes forgets what it was still to count.
	s.w.counted(l, err != nil || call.Late && s.w.crashes())
	if err != nil {
		s.cleanUp(call.Start)
	}
	s.setPhase(phaseIdle)
}

// await waits for a latch in use.
func (s *Session) await(n int) {
	s.w.mu.Lock()
	l := s.w.latches[n]
	s.w.mu.Unlock()
	limit := "NULL"
	if s.chance(0.3) {
		limit = "'" + millis(time.Duration(s.rng.Intn(1500))*time.Millisecond) + "'"
	}
	call := s.w.hist.begin(&Call{Client: s.name, Op: opAwait, Key: l.key, Limit: -1})
	atomic.AddInt32(&s.w.waiting, 1)
	s.setPhase(phaseAcquiring)
	rows, err := s.exec("SELECT redis_latch_wait('" + l.key + "', " + limit + ")")
	s.setPhase(phaseIdle)
	atomic.AddInt32(&s.w.waiting, -1)
	if err != nil {
		s.w.hist.end(call, s.code(err))
		s.cleanUp(call.Start)
		return
	}
	s.w.hist.end(call, map[string]string{"t": resultOK, "f": resultBusy}[rows[0][0]])
}

// stepLatch counts down or waits, by Redisson.
func (t *RedissonThread) stepLatch(string) {
	n := t.rng.Intn(len(t.w.keys))
	if t.rng.Intn(2) == 0 {
		l, call := t.w.claim(t.name, n)
		if l == nil {
			return
		}
		t.w.hist.begin(call)
		_, err := t.j.call(redissonLimit, t.target, "latch.countDown", l.key)
		call.Late = err != nil
		t.w.hist.end(call, resultOK)
		t.w.counted(l, err != nil)
		return
	}
	t.w.mu.Lock()
	l := t.w.latches[n]
	t.w.mu.Unlock()
	call := t.w.hist.begin(&Call{Client: t.name, Op: opAwait, Key: l.key, Limit: int64(redissonLimit)})
	answer, err := t.j.call(redissonLimit, t.target, "latch.await", l.key, "1000")
	switch {
	case err != nil:
		t.w.hist.end(call, resultException)
	case answer == "true":
		t.w.hist.end(call, resultOK)
	default:
		t.w.hist.end(call, resultBusy)
	}
}

// checkLatches: nobody goes on too early, nor sleeps on.
func checkLatches(calls []Call, latches []*Latch, faults []Window, b Bounds) []Finding {
	var found []Finding

	broken := faultSpans(faults, recovery, false)
	downs := map[string][]*Call{}
	free := map[string]int64{}
	for _, l := range latches {
		free[l.key] = l.free
	}
	for i := range calls {
		if c := &calls[i]; c.Op == opDown && c.Start != 0 {
			downs[c.Key] = append(downs[c.Key], c)
		}
	}
	for i := range calls {
		c := &calls[i]
		if c.Op != opAwait || c.End == 0 {
			continue
		}
		var begun []string
		opened := int64(0)
		for _, down := range downs[c.Key] {
			if down.Start < c.End {
				begun = append(begun, fmt.Sprintf("%s %.6f", down.Client, seconds(down.Start)))
			}
			end := down.End
			if end == 0 {
				end = 1 << 62
			} else if down.Late {
				end += int64(recovery)
			}
			if end > opened {
				opened = end
			}
		}
		deleted := free[c.Key] != 0 && free[c.Key] < c.End
		if c.Result == resultOK && len(begun) < latchCount && !deleted {
			sort.Strings(begun)
			found = append(found, Finding{"latches", fmt.Sprintf(
				"%s went on at %.6f s behind %s, which only %d of %d had begun to count down: %s",
				c.Client, seconds(c.End), c.Key, len(begun), latchCount, strings.Join(begun, ", "))})
		}
		if len(downs[c.Key]) < latchCount || c.Result == resultException {
			continue
		}
		at := span{c.Start, c.End}
		if opened > at.from {
			at.from = opened
		}
		if at.to <= at.from {
			continue
		}
		if slept := longestGap(at, broken); slept.to-slept.from > int64(wakeBound) {
			found = append(found, Finding{"wake-ups", fmt.Sprintf(
				"%s waited for %s from %.3f to %.3f s (%s), though all had counted at %.3f s",
				c.Client, c.Key, seconds(c.Start), seconds(c.End), c.Result, seconds(opened))})
		}
	}
	return found
}
