// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"math/rand"
	"sync/atomic"
	"syscall"
	"time"
)

// A piece of work of a session: takes locks, uses them, gives them back.  Each
// stops where a call fails; the call has cleaned up then.

// randomWant: a session-level or transaction-level lock, any way of asking.
func (s *Session) randomWant(xact bool, at slot) want {
	a := want{xact: xact, try: s.chance(0.5)}

	if a.try && s.chance(0.7) {
		a.wait = time.Duration(s.rng.Intn(3000)) * time.Millisecond
	}
	s.w.spec.kind.choose(s, at, &a)
	if s.chance(0.15) {
		a.lease = s.w.spec.lease + time.Duration(s.rng.Intn(1000))*time.Millisecond
	}
	return a
}

// slot is a lock of the round's kind.
func (s *Session) slot() slot {
	return slot{s.key(), s.w.spec.kind.mode(s)}
}

// alone is one that nobody else can have at the same time.
func (s *Session) alone() slot {
	return slot{s.key(), s.w.spec.kind.alone}
}

func (s *Session) key() string {
	// The first key is the hot one.
	if s.chance(0.4) {
		return s.w.keys[0]
	}
	return s.w.keys[s.rng.Intn(len(s.w.keys))]
}

type weighted struct {
	weight int
	work   func(*Session)
}

func pick(rng *rand.Rand, from []weighted) func(*Session) {
	sum := 0

	for _, w := range from {
		sum += w.weight
	}
	n := rng.Intn(sum)
	for _, w := range from {
		if n -= w.weight; n < 0 {
			return w.work
		}
	}
	panic("no work")
}

func anyWork(s *Session) { pick(s.rng, s.w.spec.kind.work)(s) }

// hold for a while, and look now and then whether it is still ours
func (s *Session) use(at slot) bool {
	s.think(s.w.spec.hold)
	switch s.rng.Intn(5) {
	case 0:
		return s.isHeld(at)
	case 1:
		return s.holdCount(at)
	}
	return true
}

func workSession(s *Session) {
	at := s.slot()
	_ = s.acquire(at, s.randomWant(false, at)) && s.use(at) && s.release(at)
}

func (s *Session) endTransaction() bool {
	if s.chance(0.2) {
		return s.finish("ROLLBACK")
	}
	return s.finish("COMMIT")
}

func workTransaction(s *Session) {
	at := s.slot()
	if !s.begin() {
		return
	}
	if s.acquire(at, s.randomWant(true, at)) {
		if !s.use(at) {
			return
		}
		if s.chance(0.2) && !s.acquire(at, want{xact: true}) {
			return
		}
	}
	if s.inTx {
		s.endTransaction()
	}
}

func workReentrant(s *Session) {
	at := s.slot()
	if !s.acquire(at, s.randomWant(false, at)) {
		return
	}
	n := 1
	for ; n < 4 && s.chance(0.6); n++ {
		if !s.acquire(at, s.randomWant(false, at)) {
			return
		}
	}
	if !s.holdCount(at) {
		return
	}
	for ; n > 0; n-- {
		if !s.use(at) || !s.release(at) {
			return
		}
	}
}

// Session-level and transaction-level holds of one key
func workMixed(s *Session) {
	at := s.slot()
	before := s.chance(0.5)

	if before && !s.acquire(at, s.randomWant(false, at)) {
		return
	}
	if !s.begin() {
		return
	}
	if !s.acquire(at, s.randomWant(true, at)) {
		if s.inTx {
			s.endTransaction()
		}
		if before && s.holds[at] != nil {
			s.release(at)
		}
		return
	}
	if !before && !s.acquire(at, s.randomWant(false, at)) {
		return
	}
	if !s.use(at) {
		return
	}
	if s.chance(0.5) {
		// Unlocked before the transaction ends: that still has it.
		_ = s.release(at) && s.isHeld(at) && s.endTransaction()
		return
	}
	_ = s.endTransaction() && s.use(at) && s.release(at)
}

func workSavepoint(s *Session) {
	at := s.slot()
	if !s.begin() {
		return
	}
	if _, err := s.exec("SAVEPOINT a"); err != nil {
		s.cleanUp(s.lastBegun)
		return
	}
	if s.acquire(at, s.randomWant(true, at)) {
		if !s.use(at) {
			return
		}
		if s.chance(0.5) && !s.rollbackTo("a", at) {
			return
		}
		if s.chance(0.3) && s.holds[at] == nil && !s.acquire(at, s.randomWant(true, at)) &&
			!s.inTx {
			return
		}
	}
	if s.inTx {
		s.endTransaction()
	}
}

// Two keys, in an order that cannot lead to a deadlock unless the round wants
// some.
func workTwoKeys(s *Session) {
	i, j := s.rng.Intn(len(s.w.keys)), s.rng.Intn(len(s.w.keys))
	if i == j {
		return
	}
	if i > j && !s.w.spec.deadlocks {
		i, j = j, i
	}
	first, second := s.slot(), s.slot()
	first.key, second.key = s.w.keys[i], s.w.keys[j]
	if !s.acquire(first, s.randomWant(false, first)) {
		return
	}
	s.think(s.w.spec.hold)
	if s.acquire(second, s.randomWant(false, second)) {
		if !s.use(first) || !s.release(second) {
			return
		}
	}
	if s.holds[first] != nil {
		s.release(first)
	}
}

func workExtend(s *Session) {
	at := s.slot()
	if !s.acquire(at, s.randomWant(false, at)) {
		return
	}
	start := now()
	lease := "'" + millis(s.w.spec.lease+time.Second) + "'"
	if s.chance(0.5) {
		lease = "NULL"
	}
	rows, err := s.exec("SELECT redis_extend" + at.arguments(lease))
	switch {
	case err != nil:
		s.cleanUp(start)
		return
	case rows[0][0] != "t" && !s.w.spec.losses:
		s.w.lost(s.name + ": redis_extend(" + at.key + ") says that it was lost")
	}
	_ = s.use(at) && s.release(at)
}

func workUnlockAll(s *Session) {
	at := s.slot()
	if !s.acquire(at, s.randomWant(false, at)) || !s.use(at) {
		return
	}
	start := now()
	if s.chance(0.5) {
		if _, err := s.exec("DISCARD ALL"); err == nil {
			s.hurried = false
			s.drop(start, false)
			return
		}
	}
	s.cleanUp(start)
}

// The connection is closed, or just cut, with the lock held.
func workVanish(s *Session) {
	at := s.slot()
	if !s.acquire(at, s.randomWant(false, at)) {
		return
	}
	s.think(s.w.spec.hold)
	s.disconnect(s.chance(0.5))
}

func workJob(s *Session) {
	key := s.key()
	atLeast, hold := "NULL", time.Duration(0)
	if s.chance(0.3) {
		hold = time.Duration(100+s.rng.Intn(1400)) * time.Millisecond
		atLeast = "'" + millis(hold) + "'"
	}
	call := s.w.hist.begin(&Call{Client: s.name, Op: opJob, Key: key, Limit: int64(hold)})
	s.setPhase(phaseHolding)
	rows, err := s.exec(fmt.Sprintf(
		"CALL redis_with_lock('%s', 'SELECT pg_sleep(0.01)', '%dms', hold_at_least => %s)",
		key, s.rng.Intn(1000), atLeast))
	call.Lingers = s.crashed
	if err != nil {
		s.w.hist.end(call, s.code(err))
		s.cleanUp(call.Start)
		return
	}
	if ran := rows[0][0] == "t"; !ran {
		call.Limit = 0
	}
	s.w.hist.end(call, resultOK)
	s.restPhase()
}

// ---- a table that locks guard ----

// update reads the value of a key, thinks, and writes the next one: what is lost
// if two do it at once is found by checkGuarded.  pause is called in between.
func (s *Session) update(key string, token int64, pause func()) {
	rows, err := s.exec("SELECT value FROM guarded WHERE key = '" + key + "'")
	if err != nil {
		s.cleanUp(s.lastBegun)
		return
	}
	value := int64(0)
	fmt.Sscan(rows[0][0], &value)
	value++
	pause()
	tag := fmt.Sprintf("%s/%d", s.name, now())
	_, err = s.exec(fmt.Sprintf("UPDATE guarded SET value = %d WHERE key = '%s'", value, key))
	if err == nil {
		_, err = s.exec(fmt.Sprintf("INSERT INTO guarded_log (key, value, token, tag) "+
			"VALUES ('%s', %d, %d, '%s')", key, value, token, tag))
	}
	if err != nil {
		s.cleanUp(s.lastBegun)
		return
	}
	if s.finish("COMMIT") {
		s.w.committed(s.node, tag)
	}
}

// workFenced writes under a token that PostgreSQL has recorded: nothing that
// befalls Redis or a process may lose an update.
func workFenced(s *Session) {
	if s.chance(0.3) {
		workFencedElsewhere(s)
		return
	}
	workFencedHere(s)
}

func workFencedHere(s *Session) {
	at := s.alone()
	if !s.begin() {
		return
	}
	a := want{xact: true, fenced: true, try: s.chance(0.5),
		wait: time.Duration(s.rng.Intn(3000)) * time.Millisecond}
	if s.w.spec.losses && s.chance(0.2) {
		a.lease = 500 * time.Millisecond
	}
	if !s.acquire(at, a) {
		if s.inTx {
			s.finish("ROLLBACK")
		}
		return
	}
	token := s.lastToken(at.key)
	if token == 0 {
		s.cleanUp(s.lastBegun)
		return
	}
	s.update(at.key, token, func() { s.think(s.w.spec.hold) })
}

// lastToken is the token that is held now; 0 if it is lost.
func (s *Session) lastToken(key string) int64 {
	var token int64

	rows, err := s.exec("SELECT redis_fence('" + key + "')")
	if err == nil {
		fmt.Sscan(rows[0][0], &token)
	}
	return token
}

// The lock is taken before the transaction, its token checked inside, as a
// service does that passes its own; here or in the other server.
func workFencedElsewhere(s *Session) {
	at := s.alone()
	if !s.acquire(at, want{fenced: true, try: true, wait: 2 * time.Second}) {
		return
	}
	token := s.lastToken(at.key)
	if token == 0 {
		s.cleanUp(s.lastBegun)
		return
	}
	s.writers.any(s.w, s.name, s.rng).writeFenced(at.key, token)
	s.release(at)
}

// Writers are connections to both servers for a client that has its locks
// elsewhere: the locks and the transactions know nothing of each other.
type Writers map[*Postgres]*Session

func (m Writers) any(r *Round, name string, rng *rand.Rand) *Session {
	return m.to(r, name, r.env.nodes[rng.Intn(len(r.env.nodes))])
}

func (m Writers) to(r *Round, name string, node *Postgres) *Session {
	if m[node] == nil {
		m[node] = newSession(r, name+"/"+node.name, node, r.seedOfWriter())
	}
	return m[node]
}

func (m Writers) close() {
	for _, writer := range m {
		writer.disconnect(false)
	}
}

// ready: connected, in a transaction.
func (s *Session) ready() bool {
	if s.dead() && !s.connect() {
		return false
	}
	return s.begin()
}

func (s *Session) writeFenced(key string, token int64) {
	if !s.ready() {
		return
	}
	if _, err := s.exec(fmt.Sprintf("SELECT redis_fence_check('%s', %d)", key, token)); err != nil {
		s.cleanUp(s.lastBegun)
		return
	}
	s.update(key, token, func() { s.think(s.w.spec.hold) })
}

func (s *Session) writePlain(key string) {
	if s.ready() {
		s.update(key, 0, func() { s.think(s.w.spec.hold) })
	}
}

// workGuarded has a plain transaction-level lock, and now and then loses it
// before it commits.  The commit guard has to refuse.
func workGuarded(s *Session) {
	at := s.alone()
	if !s.begin() {
		return
	}
	if !s.acquire(at, want{xact: true, try: true, wait: 2 * time.Second}) {
		if s.inTx {
			s.finish("ROLLBACK")
		}
		return
	}
	s.update(at.key, 0, func() {
		s.think(s.w.spec.hold)
		if s.chance(s.w.spec.mishaps) {
			s.w.spec.mishap(s, at.key)
		}
	})
}

// stopForLong stops this backend and the watchdog, so that the lease ends.  It is
// the client that does so, which knows that nothing runs meanwhile: a stop after
// the guard has looked is what no guard can help against.
func stopForLong(s *Session, _ string) {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	w := s.w.hist.beginFault("session and watchdog stopped in a transaction", false)
	backend := int(atomic.LoadInt32(&s.pid))
	watchdog := s.node.watchdog()
	signalBackend(backend, syscall.SIGSTOP)
	signalBackend(watchdog, syscall.SIGSTOP)
	time.Sleep(s.w.spec.lease*5/4 + time.Duration(s.rng.Int63n(int64(s.w.spec.lease))))
	signalBackend(backend, syscall.SIGCONT)
	signalBackend(watchdog, syscall.SIGCONT)
	s.w.hist.endFault(w)
}

// loseKey deletes the own lock in Redis, and gives others time to take it.
func loseKey(s *Session, key string) {
	rows, err := s.exec("SELECT owner FROM redis_locks WHERE pid = pg_backend_pid() AND granted")
	if err != nil || len(rows) != 1 {
		return
	}
	w := s.w.hist.beginFault("own lock deleted in a transaction", false)
	if s.w.env.inTable() {
		s.node.query(fmt.Sprintf("DELETE FROM redis_lock_rows WHERE key = '%s' AND owner = '%s'",
			key, rows[0][0]))
	}
	for _, store := range s.w.env.stores() {
		store.cmd("EVAL", "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then "+
			"redis.call('DEL', KEYS[1]) end", 1, key, rows[0][0])
	}
	s.think(200 * time.Millisecond)
	s.w.hist.endFault(w)
}
