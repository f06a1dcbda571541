// Copyright (c) 2026, lockredis contributors

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// What a session is doing, for faults that look for a victim.
const (
	phaseIdle = iota
	phaseAcquiring
	phaseHolding
	phaseReleasing
	phaseCount
)

// A Session is a client of lockredis: one backend after the other, when faults
// take them away.
type Session struct {
	name string
	node *Postgres
	rng  *rand.Rand
	w    *Round

	conn      *pgconn.PgConn
	settings  map[string]string
	warnings  []*pgconn.Notice
	holds     map[slot]*hold
	inTx      bool
	unsure    bool  // an acquire may have been granted, and its statement failed
	lastBegun int64 // start of the last statement: a transaction that it failed in ended after that
	lastAlive int64 // end of the last statement that was answered
	gaveBack  bool  // a wait for a condition has failed: what it gave back counts as lost
	crashed   bool  // the backend went without giving back what it had

	lockTimeout time.Duration
	hurried     bool // statement_timeout is short
	lastHeld    bool // the last answer of redis_is_held

	writers Writers // its own connections beside this one

	pid   int32
	phase int32
}

// A slot is what a session can have: a key in a mode.
type slot struct {
	key, mode string
}

// What the session has of one slot
type hold struct {
	session int
	xact    bool
	certain int64 // when it was last said, or known by being granted, that it is held
}

// How long a statement may take before the session is given up as hung.
const hangLimit = 60 * time.Second

// So often what a client has to do in any case is tried, 200 ms apart: a server that has lost
// its power may be away for long.
const patientTries = 300

// patiently calls that until it succeeds, or has failed patientTries times.
func patiently(try func() error) (err error) {
	for tries := 0; tries < patientTries; tries++ {
		if err = try(); err == nil {
			return nil
		}
		sleepMillis(200)
	}
	return err
}

func newSession(w *Round, name string, node *Postgres, seed int64) *Session {
	return &Session{name: name, node: node, w: w,
		rng: rand.New(rand.NewSource(seed)), holds: map[slot]*hold{}, writers: Writers{}}
}

func (s *Session) setPhase(phase int32) int32 {
	return atomic.SwapInt32(&s.phase, phase)
}

func (s *Session) chance(p float64) bool { return s.rng.Float64() < p }

// think is what a client does between its calls.
func (s *Session) think(most time.Duration) {
	time.Sleep(time.Duration(s.rng.Int63n(int64(most) + 1)))
}

// connect until it works or the round is over.
func (s *Session) connect() bool {
	s.lockTimeout = s.w.spec.lockTimeouts[s.rng.Intn(len(s.w.spec.lockTimeouts))]
	settings := map[string]string{
		"application_name":       s.name,
		"lockredis.lease":        millis(s.w.spec.lease),
		"lockredis.wait_lease":   millis(s.w.spec.lease),
		"lockredis.commit_guard": s.w.spec.guard,
		"lockredis.on_lost":      s.w.spec.onLost[s.rng.Intn(len(s.w.spec.onLost))],
		"lock_timeout":           millis(s.lockTimeout),
	}
	config, err := s.node.config(settings)
	if err != nil {
		panic(err)
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		s.warnings = append(s.warnings, n)
	}
	for !s.w.over() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		conn, err := pgconn.ConnectConfig(ctx, config)
		cancel()
		if err == nil {
			s.conn = conn
			s.inTx, s.hurried, s.crashed = false, false, false
			s.lastAlive = now()
			atomic.StoreInt32(&s.pid, int32(conn.PID()))
			return true
		}
		sleepMillis(100)
	}
	return false
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%dms", d.Milliseconds())
}

func (s *Session) dead() bool { return s.conn == nil || s.conn.IsClosed() }

// exec runs one statement.
func (s *Session) exec(sql string) ([][]string, error) {
	if s.dead() {
		return nil, errors.New("no connection")
	}
	s.warnings = nil
	s.lastBegun = now()
	ctx, cancel := context.WithTimeout(context.Background(), hangLimit)
	results, err := s.conn.Exec(ctx, sql).ReadAll()
	timedOut := ctx.Err() != nil
	cancel()
	if err == nil {
		s.lastAlive = now()
		return textRows(results), nil
	}
	if timedOut {
		s.w.find("ends", "%s: %s had no answer within %v", s.name, sql, hangLimit)
	}
	var pgErr *pgconn.PgError
	if !s.dead() && errors.As(err, &pgErr) {
		s.lastAlive = now()
		s.judgeError(sql, pgErr)
	}
	s.crashed = s.dead() && s.code(err) != "57P01"
	return nil, err
}

// code is the SQLSTATE of an error, or "lost connection".
func (s *Session) code(err error) string {
	var pgErr *pgconn.PgError

	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return "lost connection"
}

// judgeError: is this an error that a session has to expect in this round?
func (s *Session) judgeError(sql string, err *pgconn.PgError) {
	switch {
	case err.Code == "57014", err.Code == "57P01", err.Code == "57P02",
		err.Code == "57P03", err.Code == "55P03", err.Code == "53300",
		strings.HasPrefix(err.Code, "58"):
		return
	case err.Code == "25P02" && s.inTx:
		return
	case err.Code == "55000" && strings.Contains(err.Message, "watchdog"):
		return
	case err.Code == "25006" && s.w.env.hasStandby():
		// A standby, or one that was when the statement began
		return
	case err.Code == "55000" && s.w.env.inFallback() &&
		strings.Contains(err.Detail, "does not know the counters"):
		// Its tokens would be no continuation of those in Redis.
		return
	case err.Code == "40P01" && s.w.spec.deadlocks:
		return
	case err.Code == "40001" || err.Code == "23000" ||
		err.Code == "55000" && (strings.Contains(err.Message, "was lost") ||
			strings.Contains(err.Message, "about to end")):
		if s.w.spec.losses {
			return
		}
		s.w.lost(fmt.Sprintf("%s: %s: %s (%s)", s.name, sql, err.Message, err.Detail))
		return
	}
	s.w.find("errors", "%s: %s: %s %s (%s)", s.name, sql, err.Code, err.Message, err.Detail)
}

// lossWarned looks for the warning of a lock that was found lost; unanswered,
// for that of a store that did not answer a release.
func (s *Session) lossWarned() bool {
	for _, n := range s.warnings {
		if strings.Contains(n.Message, "lost") {
			if !s.w.spec.losses && !s.gaveBack {
				s.w.lost(fmt.Sprintf("%s: %s (%s)", s.name, n.Message, n.Detail))
			}
			return true
		}
	}
	return false
}

func (s *Session) unanswered() bool {
	for _, n := range s.warnings {
		if strings.HasPrefix(n.Code, "58") {
			return true
		}
	}
	return false
}

// disconnect ends the session as a client does that has no more to say.  It may
// have been terminated before.  With cut its connection just ends: the backend
// finds out, and gives back, at some moment after that.
func (s *Session) disconnect(cut bool) {
	start := s.lastAlive

	if s.conn != nil {
		if cut {
			s.conn.Conn().Close()
		}
		ctx, cancel := context.WithTimeout(context.Background(), hangLimit)
		s.conn.Close(ctx)
		cancel()
		s.conn = nil
	}
	ended := cut || backendEnds(int(atomic.LoadInt32(&s.pid)))
	atomic.StoreInt32(&s.pid, 0)
	s.drop(start, cut || !ended || s.crashed || s.w.crashes())
}

// backendEnds waits for a backend whose client has said that it leaves: it may be
// stopped just then, and has its locks until it goes on.
func backendEnds(pid int) bool {
	for end := time.Now().Add(hangLimit); time.Now().Before(end); sleepMillis(2) {
		if pid == 0 || !isPostgres(pid) {
			return true
		}
	}
	return false
}

// run does one piece of work after the other until the round is over.
func (s *Session) run(work func(*Session)) {
	for !s.w.over() {
		if s.dead() {
			s.drop(s.lastAlive, s.crashed)
			if !s.connect() {
				break
			}
		}
		s.hurry()
		work(s)
		s.think(s.w.spec.think)
	}
	s.writers.close()
	if s.dead() || s.chance(0.5) {
		s.disconnect(false)
		return
	}
	// The others give back in good order.
	s.cleanUp(now())
	s.disconnect(false)
}

// hurry sets a short statement_timeout while a storm of them is on.
func (s *Session) hurry() {
	want := atomic.LoadInt32(&s.w.hurry) != 0

	if want == s.hurried || s.inTx {
		return
	}
	limit := 0
	if want {
		limit = 1 + s.rng.Intn(60)
	}
	if _, err := s.exec(fmt.Sprintf("SET statement_timeout = %d", limit)); err == nil {
		s.hurried = want
	}
}
