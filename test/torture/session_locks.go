// Copyright (c) 2026, lockredis contributors

package main

import (
	"strconv"
	"strings"
	"time"
)

// What a session does with locks: takes them, gives them back, and asks about them.

// How a lock is wanted
type want struct {
	xact, fenced bool
	try          bool
	wait         time.Duration // with try
	lease        time.Duration // 0: renewed
	fair         bool
	asFair       bool // for negative controls: it is not fair, and said to be
}

// named is the middle of the names of functions: "read_" for a read lock.
func (at slot) named() string {
	if at.mode == modeAlone {
		return ""
	}
	return at.mode + "_"
}

// arguments of functions that may be told the kind of lock
func (at slot) arguments(more ...string) string {
	words := append([]string{"'" + at.key + "'"}, more...)
	if at.mode != modeAlone {
		words = append(words, "kind => '"+at.mode+"'")
	}
	return "(" + strings.Join(words, ", ") + ")"
}

func (s *Session) statement(at slot, a want) string {
	name := at.named() + "lock"
	if a.xact {
		name = at.named() + "xact_lock"
	}
	if a.fenced {
		name = "fenced_" + name
	}
	if a.fair {
		name = "fair_" + name
	}
	args := "'" + at.key + "'"
	if a.try {
		name = "try_" + name
		args += ", '" + millis(a.wait) + "'"
	}
	if a.lease != 0 {
		args += ", lease => '" + millis(a.lease) + "'"
	}
	return "SELECT redis_" + name + "(" + args + ")"
}

// call is the beginning of a line of the history.
func (s *Session) call(op string, at slot) *Call {
	return &Call{Client: s.name, Op: op, Key: at.key, Mode: at.mode}
}

// acquire takes a lock.  After an error it has cleaned up.
func (s *Session) acquire(at slot, a want) bool {
	h := s.holds[at]
	call := s.call(opLock, at)
	call.Queues, call.Limit = true, -1
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
	sql := s.statement(at, a)
	if h == nil && (a.fair || a.asFair) {
		call.Fair = true
		sql += ", (SELECT min(owner) FROM redis_locks WHERE pid = pg_backend_pid() " +
			"AND granted AND key = '" + at.key + "')"
	}
	standby := s.node.isStandby()
	rows, err := s.exec(sql)
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
	if standby && s.w.env.inTable() && s.node.isStandby() {
		s.w.find("standby", "%s had %s of a standby", s.name, at.key)
	}
	if call.Fair {
		call.Owner = rows[0][1]
	}
	if a.fenced {
		call.Token, _ = strconv.ParseInt(value, 10, 64)
	}
	s.w.hist.end(call, resultOK)
	if h == nil {
		h = &hold{}
		s.holds[at] = h
	}
	h.certain = call.Start
	if a.xact {
		h.xact = true
	} else {
		h.session++
	}
	s.setPhase(phaseHolding)
	return true
}

// release gives back one session-level hold.
func (s *Session) release(at slot) bool {
	h := s.holds[at]
	call := s.w.hist.begin(s.call(opUnlock, at))

	s.setPhase(phaseReleasing)
	rows, err := s.exec("SELECT redis_" + at.named() + "unlock('" + at.key + "')")
	if err != nil {
		s.w.hist.end(call, s.code(err))
		s.cleanUp(call.Start)
		return false
	}
	call.Lingers = s.unanswered()
	if rows[0][0] != "t" {
		if !s.lossWarned() {
			s.w.find("errors", "%s: redis_%sunlock(%s) says that it was not held",
				s.name, at.named(), at.key)
		}
		// Session-level ones only; but a transaction has lost it just as well.
		call.Op = opDrop
		if s.w.spec.valid {
			call.Start = h.certain
		}
		s.w.hist.end(call, resultOK)
		delete(s.holds, at)
		s.restPhase()
		return false
	}
	s.w.hist.end(call, resultOK)
	h.certain = call.Start
	h.session--
	if h.session == 0 && !h.xact {
		delete(s.holds, at)
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
		s.cleanUp(s.lastBegun)
		return false
	}
	s.inTx = true
	return true
}

// finish ends the transaction, and with it what is held at its level.
func (s *Session) finish(command string) bool {
	var calls []*Call

	for at, h := range s.holds {
		if h.xact {
			call := s.w.hist.begin(s.call(opUnlock, at))
			if s.w.spec.valid && command != "COMMIT" {
				// It may have been lost since then, and nobody looks.
				call.Start = h.certain
			}
			calls = append(calls, call)
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
		at := slot{call.Key, call.Mode}
		h := s.holds[at]
		h.xact = false
		if h.session == 0 {
			delete(s.holds, at)
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

// rollbackTo gives back one lock that was taken after the savepoint, with
// nothing else held of it.
func (s *Session) rollbackTo(savepoint string, at slot) bool {
	call := s.w.hist.begin(s.call(opUnlock, at))

	if s.w.spec.valid {
		call.Start = s.holds[at].certain
	}
	if _, err := s.exec("ROLLBACK TO " + savepoint); err != nil {
		s.w.hist.end(call, s.code(err))
		s.cleanUp(call.Start)
		return false
	}
	s.w.hist.end(call, resultOK)
	delete(s.holds, at)
	s.restPhase()
	return true
}

// isHeld and holdCount ask lockredis what it thinks.
func (s *Session) isHeld(at slot) bool {
	call := s.w.hist.begin(s.call(opHeld, at))

	rows, err := s.exec("SELECT redis_is_held" + at.arguments())
	if err != nil {
		s.w.hist.end(call, s.code(err))
		s.cleanUp(call.Start)
		return false
	}
	s.lastHeld = rows[0][0] == "t"
	s.w.hist.end(call, map[bool]string{true: "true", false: "false"}[s.lastHeld])
	if h := s.holds[at]; h != nil && s.lastHeld {
		h.certain = call.Start
	}
	return true
}

func (s *Session) holdCount(at slot) bool {
	call := s.w.hist.begin(s.call(opCount, at))

	rows, err := s.exec("SELECT redis_hold_count" + at.arguments())
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

	for at, h := range s.holds {
		since := start
		if s.w.spec.valid && h.certain < since {
			since = h.certain
		}
		s.w.hist.add(Call{Client: s.name, Op: opDrop, Key: at.key, Mode: at.mode,
			Start: since, End: end, Result: resultOK, Lingers: lingers})
	}
	s.holds = map[slot]*hold{}
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
