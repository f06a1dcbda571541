// Copyright (c) 2026, lockredis contributors

package main

import "time"

// Negative controls of read-write locks, and histories that are right

func in(mode string, c Call) Call { c.Mode = mode; return c }
func reads(c Call) Call           { return in(modeRead, c) }
func writes(c Call) Call          { return in(modeWrite, c) }

var readWriteControls = []control{
	{"a writer beside a reader", "exclusion", true, doctored(
		reads(call("a", opLock, 0, 1)), writes(call("b", opLock, 2, 3)),
		reads(call("a", opUnlock, 4, 5)), writes(call("b", opUnlock, 6, 7)))},
	{"a reader beside a writer", "exclusion", true, doctored(
		writes(call("a", opLock, 0, 1)), reads(call("b", opLock, 2, 3)),
		writes(call("a", opUnlock, 4, 5)), reads(call("b", opUnlock, 6, 7)))},
	{"two writers", "exclusion", true, doctored(
		writes(call("a", opLock, 0, 1)), writes(call("b", opLock, 2, 3)),
		writes(call("a", opUnlock, 4, 5)), writes(call("b", opUnlock, 6, 7)))},
	{"a writer who reads and lets another one write", "exclusion", true, doctored(
		writes(call("a", opLock, 0, 1)), reads(call("a", opLock, 2, 3)),
		writes(call("a", opUnlock, 4, 5)), writes(call("b", opLock, 6, 7)),
		reads(call("a", opUnlock, 8, 9)), writes(call("b", opUnlock, 10, 11)))},
	{"a reader who gets the write lock", "exclusion", true, doctored(
		reads(call("a", opLock, 0, 1)), writes(call("a", opLock, 2, 3)))},
	{"a read lock given back twice", "exclusion", true, doctored(
		reads(call("a", opLock, 0, 1)), reads(call("b", opLock, 0, 1)),
		reads(call("a", opUnlock, 2, 3)), reads(call("a", opUnlock, 4, 5)))},
	{"a read lock that is said to be held after a writer got it", "exclusion", true, doctored(
		reads(call("a", opLock, 0, 1)), writes(call("b", opLock, 2, 3)),
		answer(reads(call("a", opHeld, 4, 5)), "true"), reads(call("a", opDrop, 1, 6)))},
	{"a reader who sleeps while others read", "wake-ups", true, doctored(
		reads(call("a", opLock, 0, 1)), waiting(reads(call("b", opLock, 2, 20))),
		reads(call("a", opUnlock, 30, 31)), reads(call("b", opUnlock, 32, 33)))},
	{"a writer who sleeps while nobody reads", "wake-ups", true, doctored(
		reads(call("a", opLock, 0, 1)), waiting(writes(call("b", opLock, 2, 20))),
		reads(call("a", opUnlock, 3, 4)), writes(call("b", opUnlock, 32, 33)))},
	{"busy for a reader though others only read", "busy", true, doctored(
		reads(call("a", opLock, 0, 1)), answer(reads(call("b", opLock, 40, 41)), resultBusy),
		reads(call("a", opUnlock, 50, 51)))},

	{"writers that only have the read lock", "guarded table", true, writersWhoRead},
	{"readers without a lock", "guarded table", false, readersWithoutLock},
}

var readWriteRight = []rightHistory{
	{"readers together, then a writer", []Call{
		reads(call("a", opLock, 0, 2)), reads(call("b", opLock, 1, 3)),
		waiting(writes(call("c", opLock, 2, 8))), answer(reads(call("a", opHeld, 3, 4)), "true"),
		reads(call("a", opUnlock, 4, 5)), reads(call("b", opUnlock, 5, 7)),
		writes(call("c", opUnlock, 9, 10))}, nil},
	{"a writer who goes on reading", []Call{
		writes(call("a", opLock, 0, 1)), reads(call("a", opLock, 1, 2)),
		waiting(reads(call("b", opLock, 1, 5))), writes(call("a", opUnlock, 3, 4)),
		reads(call("b", opUnlock, 6, 7)), counted(reads(call("a", opCount, 7, 8)), 1),
		reads(call("a", opUnlock, 8, 9))}, nil},
	{"a reader behind a writer who waits", []Call{
		reads(call("a", opLock, 0, 1)), waiting(writes(call("b", opLock, 1, 22))),
		waiting(reads(call("c", opLock, 2, 24))), reads(call("a", opUnlock, 20, 21)),
		writes(call("b", opUnlock, 22, 23)), reads(call("c", opUnlock, 25, 26))}, nil},
}

func writersWhoRead(e *Environment, v *Verdict) []Finding {
	s := calmSpec().of(readWriteKind)
	s.keys = 1
	s.think = 5 * time.Millisecond
	s.work = func(session *Session) {
		at := slot{session.key(), modeRead}
		if session.begin() && session.acquire(at, want{xact: true}) {
			session.update(at.key, 0, func() { session.think(s.hold) })
		}
	}
	return controlRound(e, v, s, 2*time.Second)
}

func readersWithoutLock(e *Environment, v *Verdict) []Finding {
	s := calmSpec().of(readWriteKind)
	s.keys = 1
	s.think = 5 * time.Millisecond
	s.work = func(session *Session) {
		if session.chance(0.5) {
			workWrite(session)
		} else if session.begin() {
			session.readTwice(session.key())
		}
	}
	return controlRound(e, v, s, 3*time.Second)
}
