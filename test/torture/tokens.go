// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

// tokenKind: locks that belong to who knows their token, in whatever session, and end
// with their lease; the same as of programs without lockredis.
var tokenKind = &Kind{
	name:    "token",
	prefix:  true,
	ends:    true,
	bare:    true,
	mode:    onlyAlone,
	alone:   modeAlone,
	choose:  func(*Session, slot, *want) {},
	bareRun: (*Bare).stepToken,
	work: []weighted{
		{6, workToken},
		{2, workTokenInTransaction},
		{2, workTokenHandedOn},
		{1, workTokenLeft},
	},
	specs: []func() Spec{orphansSpec, hotSpec, exclusionSpec, calmSpec},
}

var tokens int64

// A TokenLock is held by this client, which may let others release it.
type TokenLock struct {
	at    slot
	token string
	from  int64 // before it was asked for, or its lease last extended
	lease time.Duration

	certain int64 // before it was last said that it is held
}

// over: its lease may have ended.
func (l *TokenLock) over() bool {
	return now()-l.from > int64(l.lease-time.Second)
}

// takeToken takes a lock with a token that nobody else has; nil: it has none.
func (s *Session) takeToken(key string, lease time.Duration) *TokenLock {
	l := &TokenLock{at: slot{key: key}, lease: lease,
		token: fmt.Sprintf("torture-%d", atomic.AddInt64(&tokens, 1))}
	call := s.call(opLock, l.at)
	call.Queues, call.Limit = true, -1
	sql := "SELECT redis_token_lock('" + key + "', '" + millis(lease) + "', '" + l.token + "')"
	if s.chance(0.5) {
		wait := time.Duration(0)
		if s.chance(0.7) {
			wait = time.Duration(s.rng.Intn(3000)) * time.Millisecond
		}
		call.Queues, call.Limit = wait > 0, int64(wait)
		sql = fmt.Sprintf("SELECT redis_try_token_lock('%s', '%s', '%s', '%s')",
			key, millis(wait), millis(lease), l.token)
	}
	if s.lockTimeout > 0 && (call.Limit < 0 || int64(s.lockTimeout) < call.Limit) {
		call.Limit = int64(s.lockTimeout)
	}
	s.w.hist.begin(call)
	l.from = call.Start
	before := s.setPhase(phaseAcquiring)
	rows, err := s.exec(sql)
	s.setPhase(before)
	if err != nil {
		code := s.code(err)
		// An interrupt may come between the function's end and the statement's: it stays
		// then.  Whatever else went wrong, lockredis itself takes it away again.
		call.Lingers = s.crashed || code[:2] == "57" || s.dead()
		s.w.hist.end(call, code)
		s.cleanUp(call.Start)
		if call.Lingers {
			l.takeAway(s.w)
		}
		return nil
	}
	if rows[0][0] != l.token {
		s.w.hist.end(call, resultBusy)
		return nil
	}
	s.w.hist.end(call, resultOK)
	l.certain = call.Start
	s.setPhase(phaseHolding)
	return l
}

// takeAway asks until that is answered, by whichever server answers.
func (l *TokenLock) takeAway(r *Round) {
	for tries := 0; tries < patientTries; tries++ {
		node := r.env.nodes[tries%len(r.env.nodes)]
		if _, err := node.query("SELECT redis_token_unlock('" + l.at.key + "', '" +
			l.token + "')"); err == nil {
			return
		}
		sleepMillis(200)
	}
}

// giveToken gives it back, by this session or another one of the same client.
func (s *Session) giveToken(l *TokenLock, by *Session) bool {
	call := s.call(opUnlock, l.at)
	expired := l.over()
	s.w.hist.begin(call)
	if expired {
		// It ended at some moment since then, or now.
		call.Op, call.Start = opDrop, l.from
	}
	before := by.setPhase(phaseReleasing)
	rows, err := by.exec("SELECT redis_token_unlock('" + l.at.key + "', '" + l.token + "')")
	by.setPhase(before)
	if s.w.spec.valid && !expired && (err != nil || rows[0][0] != "t") {
		call.Start = l.certain
	}
	if err != nil {
		// Done or not: that is asked again, and the lease ends it in any case.
		call.Lingers = true
		if expired {
			s.w.hist.end(call, resultOK)
		} else {
			s.w.hist.end(call, by.code(err))
			s.w.hist.add(Call{Client: s.name, Op: opDrop, Key: l.at.key, Start: call.Start,
				End: call.End, Result: resultOK, Lingers: true})
		}
		by.cleanUp(call.Start)
		l.takeAway(s.w)
		s.restPhase()
		return false
	}
	if rows[0][0] != "t" && s.w.spec.valid {
		call.Op = opDrop
	}
	s.w.hist.end(call, resultOK)
	if rows[0][0] != "t" && !expired && !s.w.spec.losses {
		s.w.lost(s.name + ": redis_token_unlock(" + l.at.key + ") says that it was not held")
	}
	s.restPhase()
	return true
}

// ask wants to know whether it is held, or extends it.
func (s *Session) askToken(l *TokenLock) bool {
	if s.chance(0.5) {
		call := s.w.hist.begin(s.call(opHeld, l.at))
		rows, err := s.exec("SELECT redis_token_is_held('" + l.at.key + "', '" + l.token + "')")
		if err != nil {
			s.w.hist.end(call, s.code(err))
			s.cleanUp(call.Start)
			return false
		}
		if l.over() {
			s.w.hist.end(call, "too late")
			return true
		}
		s.w.hist.end(call, map[string]string{"t": "true", "f": "false"}[rows[0][0]])
		if rows[0][0] == "t" {
			l.certain = call.Start
		}
		return true
	}
	start := now()
	rows, err := s.exec("SELECT redis_token_extend('" + l.at.key + "', '" + l.token + "', '" +
		millis(l.lease) + "')")
	if err != nil {
		s.cleanUp(start)
		return false
	}
	if rows[0][0] == "t" {
		l.from, l.certain = start, start
	} else if !l.over() && !s.w.spec.losses {
		s.w.lost(s.name + ": redis_token_extend(" + l.at.key + ") says that it was not held")
	}
	return true
}

func workToken(s *Session) {
	l := s.takeToken(s.key(), s.w.spec.lease)
	if l == nil {
		return
	}
	s.think(s.w.spec.hold)
	if s.chance(0.4) {
		s.askToken(l)
	}
	s.giveToken(l, s)
}

// A transaction that is rolled back keeps what was taken in it.
func workTokenInTransaction(s *Session) {
	if !s.begin() {
		return
	}
	l := s.takeToken(s.key(), s.w.spec.lease)
	if s.inTx {
		s.finish("ROLLBACK")
	}
	if l != nil {
		if !s.dead() && s.chance(0.5) {
			s.askToken(l)
		}
		s.giveToken(l, s)
	}
}

// Given back by another session, here or on the other server
func workTokenHandedOn(s *Session) {
	l := s.takeToken(s.key(), s.w.spec.lease)
	if l == nil {
		return
	}
	s.think(s.w.spec.hold)
	by := s.writers.any(s.w, s.name, s.rng)
	if by.dead() && !by.connect() {
		by = s
	}
	s.giveToken(l, by)
}

// workTokenLeft: nobody gives it back, so it stays until its lease ends.
func workTokenLeft(s *Session) {
	l := s.takeToken(s.key(), 2*time.Second)
	if l == nil {
		return
	}
	s.w.hist.add(Call{Client: s.name, Op: opDrop, Key: l.at.key, Start: now(), End: now(),
		Result: resultOK, Lingers: true})
	s.restPhase()
}

// stepToken is one lock and release as redis-py does it, which tells nobody.
func (b *Bare) stepToken(key string) {
	token := fmt.Sprintf("torture:%d", atomic.AddInt64(&bareOwners, 1))
	call := b.w.hist.begin(&Call{Client: b.name, Op: opLock, Key: key, Limit: int64(time.Second)})
	reply, err := b.do("SET", key, token, "NX", "PX", bareLease.Milliseconds())
	release := func() error {
		_, err := b.do("EVAL", "if redis.call('GET', KEYS[1]) == ARGV[1] then "+
			"return redis.call('DEL', KEYS[1]) end return 0", 1, key, token)
		return err
	}
	if err != nil {
		// Done or not, or done later: nobody believes that he has it.
		call.Lingers = true
		b.w.hist.end(call, "no answer")
		for until := time.Now().Add(recovery); time.Now().Before(until); sleepMillis(100) {
			release()
		}
		return
	}
	if reply == nil {
		b.w.hist.end(call, resultBusy)
		return
	}
	b.w.hist.end(call, resultOK)
	time.Sleep(time.Duration(b.rng.Int63n(int64(b.w.spec.hold) + 1)))
	call = b.w.hist.begin(&Call{Client: b.name, Op: opUnlock, Key: key, Limit: int64(bareLease)})
	for until := time.Now().Add(bareLease); release() != nil && time.Now().Before(until); {
		sleepMillis(100)
	}
	b.w.hist.end(call, resultOK)
}
