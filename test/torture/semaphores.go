// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

// semaphoreKind: numbers that nobody owns.  Each acquire and each release counts once,
// whatever becomes of its answer.
var semaphoreKind = &Kind{
	name:     "semaphore",
	prefix:   true,
	mode:     func(*Session) string { return modePermit },
	alone:    modePermit,
	choose:   func(*Session, slot, *want) {},
	work:     []weighted{{5, workSemaphore}, {3, workSemaphoreInTransaction}},
	begin:    (*Round).initSemaphores,
	end:      (*Round).endSemaphores,
	redisson: (*RedissonThread).stepSemaphore,
	specs: []func() Spec{withoutRedisson(orphansSpec), hotSpec, withoutRedisson(exclusionSpec),
		calmSpec},
}

// withoutRedisson: that repeats what was not answered, and then it counts twice.
func withoutRedisson(of func() Spec) func() Spec {
	return func() Spec {
		s := of()
		s.redisson = 0
		return s
	}
}

// A Semaphore is used until nobody can say any more what is to be free: a statement that
// was interrupted may have taken one for good, or not have given one back.
type Semaphore struct {
	key    string
	strays int
}

func (r *Round) initSemaphores() error {
	for _, key := range r.keys {
		r.semaphores = append(r.semaphores, &Semaphore{key: key})
		if err := r.initSemaphore(key); err != nil {
			return err
		}
	}
	return nil
}

func (r *Round) initSemaphore(key string) error {
	return patiently(func() error {
		_, err := r.env.primary().query(fmt.Sprintf("SELECT redis_semaphore_init('%s', %d)", key, permits))
		return err
	})
}

// semaphore is one of those that are in use.
func (r *Round) semaphore(n int) *Semaphore {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.semaphores[len(r.semaphores)-1-n%len(r.keys)]
}

// stray: of that semaphore nobody can say any more what is to be free.
func (r *Round) stray(used *Semaphore) {
	r.mu.Lock()
	used.strays++
	first := used.strays == 1
	r.mu.Unlock()
	if !first {
		return
	}
	next := &Semaphore{key: fmt.Sprintf("%s+%d", r.keys[0], atomic.AddInt64(&r.writerSeed, 1))}
	_ = r.initSemaphore(next.key)
	r.mu.Lock()
	r.semaphores = append(r.semaphores, next)
	r.mu.Unlock()
}

// endSemaphores: what was taken was given back, once.
func (r *Round) endSemaphores(patience time.Duration) {
	r.env.waitForOwed(patience)
	for _, used := range r.semaphores {
		free := int64(-1)
		for end := time.Now().Add(patience); time.Now().Before(end); sleepMillis(200) {
			rows, err := r.env.primary().query("SELECT redis_semaphore_available('" + used.key + "')")
			if err != nil {
				continue
			}
			fmt.Sscan(rows[0][0], &free)
			if free == permits || used.strays > 0 && free <= permits && free >= 0 {
				break
			}
		}
		if free > permits || free < int64(permits-used.strays) {
			r.find("leftovers", "%d permits of %s are free in the end, of %d, and %d may not have come back",
				free, used.key, permits, used.strays)
		}
		r.env.forget(used.key, "lockredis_tickets:{"+used.key+"}")
	}
}

// takeOne takes a permit, with a limit: there may be none any more.
func (s *Session) takeOne(used *Semaphore) bool {
	at := slot{used.key, modePermit}
	wait := time.Duration(s.rng.Intn(2000)) * time.Millisecond
	call := s.call(opLock, at)
	call.Queues, call.Limit = true, int64(wait)
	sql := fmt.Sprintf("SELECT redis_try_semaphore_acquire('%s', 1, '%s')", at.key, millis(wait))
	if s.lockTimeout > 0 && s.chance(0.5) {
		call.Limit = int64(s.lockTimeout)
		sql = "SELECT redis_semaphore_acquire('" + at.key + "')"
	} else if s.lockTimeout > 0 && s.lockTimeout < wait {
		call.Limit = int64(s.lockTimeout)
	}
	s.w.hist.begin(call)
	before := s.setPhase(phaseAcquiring)
	rows, err := s.exec(sql)
	s.setPhase(before)
	if err != nil {
		code := s.code(err)
		call.Lingers = s.crashed || code[:2] == "57" || s.dead()
		s.w.hist.end(call, code)
		s.cleanUp(call.Start)
		if call.Lingers {
			s.w.stray(used)
		}
		return false
	}
	if rows[0][0] == "f" {
		s.w.hist.end(call, resultBusy)
		return false
	}
	s.w.hist.end(call, resultOK)
	s.setPhase(phaseHolding)
	return true
}

// gave ends a call that gives a permit back.  If it was not answered it counts later; if
// it failed it may not have been made.
func (s *Session) gave(used *Semaphore, call *Call, err error, late bool) {
	call.Late = late || err != nil || s.unanswered()
	s.w.hist.end(call, resultOK)
	if err != nil {
		s.w.stray(used)
	}
}

func workSemaphore(s *Session) {
	used := s.w.semaphore(s.rng.Intn(len(s.w.keys)))
	if !s.takeOne(used) {
		return
	}
	s.think(s.w.spec.hold)
	call := s.w.hist.begin(s.call(opUnlock, slot{used.key, modePermit}))
	s.setPhase(phaseReleasing)
	_, err := s.exec("SELECT redis_semaphore_release('" + used.key + "')")
	s.gave(used, call, err, false)
	if err != nil {
		s.cleanUp(call.Start)
	}
	s.restPhase()
}

// workSemaphoreInTransaction gives it back when the transaction has committed; if it is
// rolled back, by another connection.
func workSemaphoreInTransaction(s *Session) {
	used := s.w.semaphore(s.rng.Intn(len(s.w.keys)))
	if !s.takeOne(used) {
		return
	}
	call := s.w.hist.begin(s.call(opUnlock, slot{used.key, modePermit}))
	s.setPhase(phaseReleasing)
	_, err := s.exec("BEGIN")
	if err == nil {
		s.inTx = true
		_, err = s.exec("SELECT redis_semaphore_xact_release('" + used.key + "')")
	}
	if err == nil {
		s.think(s.w.spec.hold)
		if s.chance(0.7) {
			_, err = s.exec("COMMIT")
			s.gave(used, call, err, true)
			if err != nil {
				s.cleanUp(call.Start)
			}
			s.inTx = false
			s.restPhase()
			return
		}
	}
	s.cleanUp(call.Start)
	_, err = s.node.query("SELECT redis_semaphore_release('" + used.key + "')")
	s.gave(used, call, err, true)
}

// stepSemaphore is one of Redisson.
func (t *RedissonThread) stepSemaphore(key string) {
	used := t.w.semaphore(t.rng.Intn(len(t.w.keys)))
	wait := t.rng.Intn(2000)
	call := t.w.hist.begin(&Call{Client: t.name, Op: opLock, Key: used.key, Mode: modePermit,
		Queues: wait > 0, Limit: int64(redissonLimit)})
	answer, err := t.j.call(redissonLimit, t.target, "semaphore.tryAcquire", used.key, "1",
		fmt.Sprint(wait))
	switch {
	case err != nil:
		call.Lingers = true
		t.w.hist.end(call, resultException)
		t.w.stray(used)
		return
	case answer != "true":
		t.w.hist.end(call, resultBusy)
		return
	}
	t.w.hist.end(call, resultOK)
	time.Sleep(time.Duration(t.rng.Int63n(int64(t.w.spec.hold) + 1)))
	// It may take as long as that of a permit.
	free := t.w.hist.begin(&Call{Client: t.name, Op: opUnlock, Key: used.key, Mode: modePermit,
		Limit: -1})
	_, err = t.j.call(redissonLimit, t.target, "semaphore.release", used.key, "1")
	free.Late = err != nil
	t.w.hist.end(free, resultOK)
	if err != nil {
		t.w.stray(used)
	}
}
