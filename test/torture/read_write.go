// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"time"
)

// readWriteKind: readers together, a writer alone, who may read, too.
var readWriteKind = &Kind{
	name:   "read-write",
	prefix: true,
	mode: func(s *Session) string {
		if s.chance(0.6) {
			return modeRead
		}
		return modeWrite
	},
	alone: modeWrite,
	choose: func(s *Session, at slot, a *want) {
		a.fenced = at.mode == modeWrite && s.chance(0.3)
	},
	work: []weighted{
		{6, workSession},
		{4, workTransaction},
		{2, workReentrant},
		{1, workMixed},
		{2, workSavepoint},
		{2, workTwoKeys},
		{1, workExtend},
		{1, workUnlockAll},
		{1, workVanish},
		{3, workDowngrade},
		{4, workReadTwice},
		{3, workWrite},
	},
	redisson: (*RedissonThread).stepReadWrite,
	specs:    []func() Spec{orphansSpec, hotSpec, exclusionSpec, readWriteFencingSpec, calmSpec},
}

// Redisson's writers have no tokens, and there are none of its readers.
func readWriteFencingSpec() Spec {
	s := fencingSpec()
	s.bareWrite = nil
	return s
}

// workDowngrade goes on reading what it has written.
func workDowngrade(s *Session) {
	write := slot{s.key(), modeWrite}
	read := slot{write.key, modeRead}
	if !s.acquire(write, s.randomWant(false, write)) || !s.use(write) {
		return
	}
	if !s.acquire(read, s.randomWant(false, read)) {
		// A writer who wants to read is never told that it is busy.
		if s.holds[write] != nil {
			s.w.find("errors", "%s: %s is busy for its writer", s.name, read.key)
			s.release(write)
		}
		return
	}
	if s.chance(0.8) {
		_ = s.release(write) && s.use(read) && s.isHeld(write) && s.release(read)
	} else {
		_ = s.release(read) && s.use(write) && s.isHeld(read) && s.release(write)
	}
}

// workReadTwice: what is read twice under a lock is the same.
func workReadTwice(s *Session) {
	at := slot{s.key(), modeRead}
	if !s.begin() {
		return
	}
	if !s.acquire(at, s.randomWant(true, at)) {
		if s.inTx {
			s.finish("ROLLBACK")
		}
		return
	}
	s.readTwice(at.key)
}

// readTwice reads, thinks, reads again, and ends the transaction.
func (s *Session) readTwice(key string) {
	var seen [2]string

	for i := range seen {
		rows, err := s.exec("SELECT value FROM guarded WHERE key = '" + key + "'")
		if err != nil {
			s.cleanUp(s.lastBegun)
			return
		}
		seen[i] = rows[0][0]
		s.think(s.w.spec.hold)
	}
	if s.endTransaction() && seen[0] != seen[1] {
		s.w.find("guarded table", "%s: %s read %s, and %s in the same transaction",
			s.node.name, s.name, seen[0], seen[1])
	}
}

// workWrite writes what the others read.
func workWrite(s *Session) {
	at := slot{s.key(), modeWrite}
	if !s.begin() {
		return
	}
	if !s.acquire(at, want{xact: true, try: s.chance(0.5), wait: 2 * time.Second}) {
		if s.inTx {
			s.finish("ROLLBACK")
		}
		return
	}
	s.update(at.key, 0, func() { s.think(s.w.spec.hold) })
}

// stepReadWrite is one lock and release.
func (t *RedissonThread) stepReadWrite(key string) {
	mode := modeRead
	if t.rng.Intn(3) == 0 {
		mode = modeWrite
	}
	wait := t.rng.Intn(3000)
	call := t.w.hist.begin(&Call{Client: t.name, Op: opLock, Key: key, Mode: mode,
		Queues: wait > 0, Limit: int64(redissonLimit)})
	of := mode + "."
	answer, err := t.j.call(redissonLimit, t.target, of+"tryLock", key, fmt.Sprint(wait), "-1")
	t.had(of, call, answer, err)
}
