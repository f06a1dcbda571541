// Copyright (c) 2026, lockredis contributors

package main

import (
	"strconv"
	"time"
)

// What a session does with locks: takes them, gives them back, and asks about them.

// How a lock is wanted
type want struct {
	xact, fenced bool
	try          bool
	wait         time.Duration // with try
	lease        time.Duration // 0: renewed
}

func (s *Session) statement(key string, a want) string {
	name := "lock"
	if a.xact {
		name = "xact_lock"
	}
	if a.fenced {
		name = "fenced_" + name
	}
	args := "'" + key + "'"
	if a.try {
		name = "try_" + name
		args += ", '" + millis(a.wait) + "'"
	}
	if a.lease != 0 {
		args += ", lease => '" + millis(a.lease) + "'"
	}
	return "SELECT redis_" + name + "(" + args + ")"
}

// acquire takes a lock.  After an error it has cleaned up.
func (s *Session) acquire(key string, a want) bool {
	h := s.holds[key]
	call := &Call{Client: s.name, Op: opLock, Key: key, Queues: true, Limit: -1}
	if a.try {
		call.Limit = int64(a.wait)
		call.Queues = a.wait > 0
	}
	if s.lockTimeout > 0 && (call.Limit < 0 || int64(s.lockTimeout) < call.Limit) {
		call.Limit = int64(s.lockTimeout)
	}
	if a.xact && h != nil && h.xact {
		// Adds nothing, but is refused if the lock is lost.
		call.Op, call.Queues = opHeld, false
	}
	s.w.hist.begin(call)
	before := s.setPhase(phaseAcquiring)
	rows, err := s.exec(s.statement(key, a))
	s.setPhase(before)
	if err != nil {
		call.Lingers = s.crashed
		s.w.hist.end(call, s.code(err))
		// An interrupt may come between the function's end and the statement's:
		// a session-level lock stays then, as an advisory lock does.
		s.unsure = !a.xact
		s.cleanUp(call.Start)
		return false
	}

	value := rows[0][0]
	if call.Op == opHeld {
		s.w.hist.end(call, "true")
		return true
	}
	granted := !a.try || (a.fenced && value != "") || value == "t"
	if !granted {
		s.w.hist.end(call, resultBusy)
		return false
	}
	if a.fenced {
		call.Token, _ = strconv.ParseInt(value, 10, 64)
	}
	s.w.hist.end(call, resultOK)
	if h == nil {
		h = &hold{}
		s.holds[key] = h
	}
	if a.xact {
		h.xact = true
	} else {
		h.session++
	}
	s.setPhase(phaseHolding)
	return true
}

// release gives back one session-level hold.
func (s *Session) release(key string) bool {
	h := s.holds[key]
	call := s.w.hist.begin(&Call{Client: s.name, Op: opUnlock, Key: key})

	s.setPhase(phaseReleasing)
	rows, err := s.exec("SELECT redis_unlock('" + key + "')")
	if err != nil {
		s.w.hist.end(call, s.code(err))
		s.cleanUp(call.Start)
		return false
	}
	call.Lingers = s.unanswered()
	if rows[0][0] != "t" {
		if !s.lossWarned() {
			s.w.find("errors", "%s: redis_unlock(%s) says that it was not held", s.name, key)
		}
		// Session-level ones only; but a transaction has lost it just as well.
		call.Op = opDrop
		s.w.hist.end(call, resultOK)
		delete(s.holds, key)
		s.restPhase()
		return false
	}
	s.w.hist.end(call, resultOK)
	h.session--
	if h.session == 0 && !h.xact {
		delete(s.holds, key)
	}
	s.restPhase()
	return true
}

func (s *Session) restPhase() {
	if len(s.holds) > 0 {
		s.setPhase(phaseHolding)
	} else {
		s.setPhase(phaseIdle)
	}
}

func (s *Session) begin() bool {
	if _, err := s.exec("BEGIN"); err != nil {
		s.cleanUp(now())
		return false
	}
	s.inTx = true
	return true
}

// finish ends the transaction, and with it what is held at its level.
func (s *Session) finish(command string) bool {
	var calls []*Call

	for key, h := range s.holds {
		if h.xact {
			calls = append(calls, s.w.hist.begin(
				&Call{Client: s.name, Op: opUnlock, Key: key}))
		}
	}
	start := now()
	s.setPhase(phaseReleasing)
	_, err := s.exec(command)
	for _, call := range calls {
		if err != nil {
			s.w.hist.end(call, s.code(err))
			continue
		}
		s.w.hist.end(call, resultOK)
		h := s.holds[call.Key]
		h.xact = false
		if h.session == 0 {
			delete(s.holds, call.Key)
		}
	}
	if err != nil {
		for _, call := range calls {
			if call.Start < start {
				start = call.Start
			}
		}
		s.cleanUp(start)
		return false
	}
	s.inTx = false
	s.restPhase()
	return true
}

// rollbackTo gives back one key that was taken after the savepoint, with
// nothing else held of it.
func (s *Session) rollbackTo(savepoint, key string) bool {
	call := s.w.hist.begin(&Call{Client: s.name, Op: opUnlock, Key: key})

	if _, err := s.exec("ROLLBACK TO " + savepoint); err != nil {
		s.w.hist.end(call, s.code(err))
		s.cleanUp(call.Start)
		return false
	}
	s.w.hist.end(call, resultOK)
	delete(s.holds, key)
	s.restPhase()
	return true
}

// isHeld and holdCount ask lockredis what it thinks.
func (s *Session) isHeld(key string) bool {
	call := s.w.hist.begin(&Call{Client: s.name, Op: opHeld, Key: key})

	rows, err := s.exec("SELECT redis_is_held('" + key + "')")
	if err != nil {
		s.w.hist.end(call, s.code(err))
		s.cleanUp(call.Start)
		return false
	}
	s.w.hist.end(call, map[string]string{"t": "true"}[rows[0][0]]+
		map[string]string{"f": "false"}[rows[0][0]])
	return true
}

func (s *Session) holdCount(key string) bool {
	call := s.w.hist.begin(&Call{Client: s.name, Op: opCount, Key: key})

	rows, err := s.exec("SELECT redis_hold_count('" + key + "')")
	if err != nil {
		s.w.hist.end(call, s.code(err))
		s.cleanUp(call.Start)
		return false
	}
	call.Count, _ = strconv.Atoi(rows[0][0])
	s.w.hist.end(call, resultOK)
	return true
}

// drop says that nothing is held any more, since some moment after start.
func (s *Session) drop(start int64, lingers bool) {
	end := now()

	for key := range s.holds {
		s.w.hist.add(Call{Client: s.name, Op: opDrop, Key: key, Start: start,
			End: end, Result: resultOK, Lingers: lingers})
	}
	s.holds = map[string]*hold{}
	s.inTx, s.unsure = false, false
	s.setPhase(phaseIdle)
}

// cleanUp after an error of a statement that began at start: end the
// transaction, give back everything, whatever it takes.
func (s *Session) cleanUp(start int64) {
	s.setPhase(phaseReleasing)
	lingers := false
	for tries := 0; !s.dead(); tries++ {
		if tries == 20 {
			// Storms of cancels leave no other way.
			s.disconnect(false)
			return
		}
		if s.hurried {
			if _, err := s.exec("SET statement_timeout = 0"); err != nil && !s.inTx {
				continue
			}
		}
		if s.inTx {
			if _, err := s.exec("ROLLBACK"); err != nil {
				continue
			}
			s.inTx = false
			if s.hurried {
				continue
			}
		}
		s.hurried = false
		if len(s.holds) > 0 || s.unsure {
			if _, err := s.exec("SELECT redis_unlock_all()"); err != nil {
				continue
			}
			s.lossWarned()
			lingers = s.unanswered()
		}
		s.drop(start, lingers)
		return
	}
	// The backend has gone at some moment since it was heard of last.
	if s.lastAlive < start {
		start = s.lastAlive
	}
	s.drop(start, s.crashed)
}
