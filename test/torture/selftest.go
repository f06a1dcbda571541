// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"math/rand"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// A control breaks something on purpose.  The check that is named has to see it.
type control struct {
	name  string
	check string
	small bool // also in the short self-test
	run   func(*Environment, *Verdict) []Finding
}

// What is broken in a round of seconds shows itself only if enough runs in that time; where
// it was not seen the round is done again, so often.
const controlTries = 10

// Each control that is not seen is a finding of the self-test.
func selfTest(e *Environment, v *Verdict, small bool, tell func(string)) {
	list := controlsOf(e.options.topology)
	if e.options.powercut != "" {
		list = powerControlsOf(e)
	}
	for _, c := range list {
		if small && !c.small {
			continue
		}
		v.controls++
		seen, broken := "", ""
		for try := 0; seen == "" && try < controlTries; try++ {
			v.tries++
			for _, f := range c.run(e, v) {
				if f.Check == c.check {
					seen = f.Text
					break
				}
				if f.Check == "rig" {
					broken = ": " + f.Text
				}
			}
			if e != nil {
				e.clear()
			}
		}
		if seen == "" {
			v.found = append(v.found, Finding{"self-test",
				c.name + ": not found by the check of " + c.check + broken})
			tell("control MISSED: " + c.name)
			continue
		}
		tell("control: " + c.name + ": found: " + strings.SplitN(seen, "\n", 2)[0])
	}
}

var controls = []control{
	{"a history with two holders", "exclusion", true, doctored(
		call("a", opLock, 0, 1), call("b", opLock, 2, 3),
		call("a", opUnlock, 4, 5), call("b", opUnlock, 6, 7))},
	{"a release of what is not held", "exclusion", true, doctored(
		call("a", opLock, 0, 1), call("a", opUnlock, 2, 3), call("a", opUnlock, 4, 5))},
	{"a lock taken twice, free after one release", "exclusion", true, doctored(
		call("a", opLock, 0, 1), call("a", opLock, 2, 3), call("a", opUnlock, 4, 5),
		call("b", opLock, 6, 7), call("a", opUnlock, 8, 9))},
	{"a fencing token that decreases", "exclusion", true, doctored(
		fenced(call("a", opLock, 0, 1), 7), call("a", opUnlock, 2, 3),
		fenced(call("b", opLock, 4, 5), 6), call("b", opUnlock, 6, 7))},
	{"a lock that is said to be held after somebody else got it", "exclusion", true, doctored(
		call("a", opLock, 0, 1), call("b", opLock, 2, 3), answer(call("a", opHeld, 4, 5), "true"),
		call("a", opDrop, 1, 6))},
	{"a dead client that was alive after somebody else got its lock", "exclusion", true, doctored(
		call("a", opLock, 0, 1), call("b", opLock, 2, 3), call("a", opDrop, 4, 5))},
	{"a wrong hold count", "exclusion", true, doctored(
		call("a", opLock, 0, 1), counted(call("a", opCount, 2, 3), 2))},
	{"busy though nobody has it", "busy", true, doctored(
		call("a", opLock, 0, 1), call("a", opUnlock, 2, 3),
		answer(call("b", opLock, 40, 41), resultBusy))},
	{"a key that is not held at least for as long as a job asked for", "held at least", true,
		doctored(limited(call("a", opJob, 0, 1), 10*time.Second), call("b", opLock, 2, 3),
			call("b", opUnlock, 11, 12))},
	{"a waiter who sleeps while the key is free", "wake-ups", true, doctored(
		call("a", opLock, 0, 1), waiting(call("b", opLock, 2, 20)), call("a", opUnlock, 3, 4))},
	{"a call without an end", "ends", true, doctored(call("a", opLock, 0, 0))},

	{"a client that ignores the lock", "exclusion", true, ignoredLock},
	{"a release that does not ask for the owner", "exclusion", false, blindRelease},
	{"commit_guard = off and sessions stopped for longer than the lease",
		"guarded table", true, guardOff},
	{"commit_guard = lease while locks are deleted", "guarded table", false, guardBlind},
	{"no fencing while Redis forgets", "guarded table", false, unfenced},
	{"a token that decreases in the guarded table", "guarded table", true, doctoredTokens},
	{"an acknowledged commit that is gone", "guarded table", true, goneCommit},
	{"a key left in Redis", "leftovers", true, plantedKey},
	{"a session that keeps its lock", "leftovers", false, plantedHold},
	{"a release without a message", "wake-ups", true, silentRelease},
	{"a backend that is stopped unnoticed", "ends", false, unnoticedStop},
	{"an internal error in the server log", "server log", true, plantedLog},
	{"losses that no fault explains", "losses", false, lossWithoutFault},
}

// ---- histories that are wrong, without any server; times in seconds ----

func call(client, op string, start, end int64) Call {
	return Call{Client: client, Op: op, Key: "k", Start: start * 1e9, End: end * 1e9,
		Result: resultOK}
}

func fenced(c Call, token int64) Call      { c.Token = token; return c }
func answer(c Call, result string) Call    { c.Result = result; return c }
func counted(c Call, n int) Call           { c.Count = n; return c }
func waiting(c Call) Call                  { c.Queues, c.Limit = true, -1; return c }
func lingering(c Call) Call                { c.Lingers = true; return c }
func limited(c Call, d time.Duration) Call { c.Limit = int64(d); return c }
func fault(name string, from, to int64) Window {
	return Window{Name: name, Start: from * 1e9, End: to * 1e9}
}

func judgeHistory(calls []Call, faults []Window) []Finding {
	b := Bounds{budget: 2 * time.Second, lease: longLease}

	found := checkExclusion(calls, 10*time.Second, "")
	found = append(found, checkEnds(calls, faults, b)...)
	found = append(found, checkHeld(calls)...)
	found = append(found, checkWakeups(calls, faults, b)...)
	found = append(found, checkMultis(calls, faults, b)...)
	return append(found, checkBusy(calls, faults, b)...)
}

func doctored(calls ...Call) func(*Environment, *Verdict) []Finding {
	return func(*Environment, *Verdict) []Finding { return judgeHistory(calls, nil) }
}

// rightHistories must not be found fault with: a checker that refuses
// everything would pass all controls.
type rightHistory struct {
	name   string
	calls  []Call
	faults []Window
}

var rightHistories = []rightHistory{
	{"one after the other", []Call{
		fenced(call("a", opLock, 0, 1), 1), call("a", opUnlock, 2, 3),
		fenced(call("b", opLock, 0, 4), 2), call("b", opUnlock, 5, 6)}, nil},
	{"granted while the release is under way", []Call{
		call("a", opLock, 0, 1), waiting(call("b", opLock, 1, 3)), call("a", opUnlock, 2, 5),
		call("b", opUnlock, 6, 7)}, nil},
	{"taken again", []Call{
		call("a", opLock, 0, 1), call("a", opLock, 1, 2), counted(call("a", opCount, 3, 4), 2),
		call("a", opUnlock, 4, 5), answer(call("a", opHeld, 5, 6), "true"),
		call("a", opUnlock, 6, 7), call("b", opLock, 7, 8), call("b", opUnlock, 8, 9)}, nil},
	{"a key that is taken when a job has held it for long enough", []Call{
		limited(call("a", opJob, 0, 1), 2*time.Second), call("b", opLock, 1, 3),
		call("b", opUnlock, 3, 4)}, nil},
	{"a key that its own job still holds", []Call{
		limited(call("a", opJob, 0, 1), 5*time.Second),
		answer(call("a", opLock, 2, 3), resultBusy)}, nil},
	{"an acquire without an answer has given nothing", []Call{
		lingering(answer(call("a", opLock, 0, 2), "lost connection")),
		limited(answer(call("b", opLock, 1, 3), resultBusy), 2*time.Second),
		call("b", opLock, 4, 5), call("b", opUnlock, 5, 6)}, nil},
	{"killed at some moment, the lease ends later", []Call{
		call("a", opLock, 0, 1), lingering(call("a", opDrop, 1, 4)),
		waiting(call("b", opLock, 2, 13)), call("b", opUnlock, 14, 15)}, nil},
	{"nobody is woken while Redis stands still", []Call{
		call("a", opLock, 0, 1), waiting(call("b", opLock, 2, 12)), call("a", opUnlock, 3, 4),
		call("b", opUnlock, 13, 14)}, []Window{fault("Redis stopped", 2, 10)}},
}

func checkRightHistories(v *Verdict) {
	right := append([]rightHistory{}, rightHistories...)
	for _, more := range [][]rightHistory{readWriteRight, multiRight, conditionRight,
		permitRight} {
		right = append(right, more...)
	}
	for _, h := range right {
		for _, f := range judgeHistory(h.calls, h.faults) {
			v.found = append(v.found, Finding{"self-test",
				"a right history (" + h.name + ") was refused: " + f.String()})
		}
	}
	also := append(checkRightOrders(), checkRightWaits()...)
	for _, f := range append(also, checkRightLatches()...) {
		v.found = append(v.found, Finding{"self-test", "what is right was refused: " + f.String()})
	}
}

// ---- rounds in which somebody breaks the rules ----

func controlRound(e *Environment, v *Verdict, s Spec, length time.Duration) []Finding {
	s.redisson = 0
	r := newRound(e, s, fmt.Sprintf("control%d", v.tries), int64(v.tries))
	if err := r.run(length); err != nil {
		return []Finding{{"rig", err.Error()}}
	}
	return r.found
}

func bareIntruder(r *Round, change func(*Bare)) *Bare {
	b, err := newBare(r, "intruder", r.env.forBare, r.env.options.lua, 1)
	if err != nil {
		panic(err)
	}
	change(b)
	return b
}

func ignoredLock(e *Environment, v *Verdict) []Finding {
	s := calmSpec()
	s.intruder = func(r *Round) {
		b := bareIntruder(r, func(b *Bare) { b.ignoresLock = true })
		b.run()
	}
	return controlRound(e, v, s, 2*time.Second)
}

func blindRelease(e *Environment, v *Verdict) []Finding {
	s := calmSpec()
	s.intruder = func(r *Round) {
		b := bareIntruder(r, func(b *Bare) { b.ignoresOwner = true })
		for !r.over() {
			b.giveBack(r.keys[0], "")
			sleepMillis(20)
		}
	}
	return controlRound(e, v, s, 3*time.Second)
}

func guardOff(e *Environment, v *Verdict) []Finding {
	s := guardSpec()
	s.guard = "off"
	s.keys = 1
	s.mishaps = 1
	s.mishap = func(session *Session, key string) {
		// Others of the server go on.
		if strings.HasSuffix(session.name, ".1") {
			stopForLong(session, key)
		}
	}
	s.faults = nil
	return controlRound(e, v, s, 8*time.Second)
}

// That guard does not ask Redis.
func guardBlind(e *Environment, v *Verdict) []Finding {
	s := verifySpec()
	s.guard = "lease"
	s.lease = longLease
	s.keys = 1
	s.think = 5 * time.Millisecond
	s.faults = nil
	return controlRound(e, v, s, 4*time.Second)
}

// The same as workFencedElsewhere, only that nobody looks at tokens.
func unfenced(e *Environment, v *Verdict) []Finding {
	s := fencingSpec()
	s.keys = 1
	s.think = 5 * time.Millisecond
	s.bareWrite = func(writer *Session, key string, _ int64) { writer.writePlain(key) }
	s.work = func(session *Session) {
		key := session.key()
		if session.acquire(slot{key: key}, want{try: true, wait: time.Second}) {
			session.writers.to(session.w, session.name, e.nodes[0]).writePlain(key)
			session.release(slot{key: key})
		}
	}
	s.faults = func(f *Fault) bool { return f.name == "FLUSHALL" }
	s.gap = 50 * time.Millisecond
	return controlRound(e, v, s, 5*time.Second)
}

func tableControl(e *Environment, key string, log string, acknowledged map[string]bool) []Finding {
	node := e.nodes[0]

	if _, err := node.query("INSERT INTO guarded VALUES ('" + key + "', 2); " +
		"INSERT INTO guarded_log (key, value, token, tag) VALUES " + log); err != nil {
		return []Finding{{"rig", err.Error()}}
	}
	found, _ := checkGuarded(node, []string{key}, acknowledged)
	return found
}

func doctoredTokens(e *Environment, _ *Verdict) []Finding {
	return tableControl(e, "doctored", "('doctored', 1, 9, 'a'), ('doctored', 2, 8, 'b')", nil)
}

func goneCommit(e *Environment, _ *Verdict) []Finding {
	return tableControl(e, "gone", "('gone', 1, 1, 'a'), ('gone', 2, 2, 'b')",
		map[string]bool{"c": true})
}

func plantedKey(e *Environment, _ *Verdict) []Finding {
	stores := e.stores()
	stores[len(stores)-1].cmd("HSET", "planted", "somebody:1", 1)
	return e.checkLeftovers(time.Second)
}

func plantedHold(e *Environment, _ *Verdict) []Finding {
	r := newRound(e, calmSpec(), "planted", 1)
	r.until = time.Now().Add(time.Minute)
	s := newSession(r, "planted", e.nodes[0], 1)
	if !s.connect() || !s.acquire(slot{key: "planted"}, want{}) {
		return nil
	}
	found := e.checkLeftovers(time.Second)
	s.disconnect(false)
	return found
}

// All wait for one who goes without a word, and whose lease would be long.
func silentRelease(e *Environment, v *Verdict) []Finding {
	s := calmSpec()
	s.bare = 0
	s.keys = 1
	s.lockTimeouts = []time.Duration{0}
	taken := int32(0)
	s.intruder = func(r *Round) {
		b := bareIntruder(r, func(b *Bare) {
			b.tellsNobody = true
			b.lease = 9 * time.Second
		})
		if b.take(r.keys[0], "torture:silent") {
			atomic.StoreInt32(&taken, 1)
			sleepMillis(1500)
			call := r.hist.begin(&Call{Client: b.name, Op: opUnlock, Key: r.keys[0]})
			b.giveBack(r.keys[0], "torture:silent")
			r.hist.end(call, resultOK)
		}
		atomic.StoreInt32(&taken, 1)
	}
	s.work = func(session *Session) {
		for atomic.LoadInt32(&taken) == 0 {
			sleepMillis(5)
		}
		if at := (slot{key: session.w.keys[0]}); session.acquire(at, want{}) {
			session.release(at)
		}
	}
	return controlRound(e, v, s, 3*time.Second)
}

// checkRefusedRelease: a release by the bare client that a read-only Redis refuses is
// repeated, and leaves nothing behind.
func checkRefusedRelease(e *Environment, v *Verdict) []Finding {
	s := calmSpec()
	s.sessions, s.bare, s.keys = 0, 0, 1
	s.intruder = func(r *Round) {
		b := bareIntruder(r, func(*Bare) {})
		if !b.take(r.keys[0], "torture:refused") {
			r.find("self-test", "the bare client could not take a free lock")
		}
		e.redis.cmd("REPLICAOF", "127.0.0.1", 1)
		time.AfterFunc(500*time.Millisecond, func() { e.redis.cmd("REPLICAOF", "NO", "ONE") })
		b.giveBack(r.keys[0], "torture:refused")
		atomic.StoreInt32(&r.ended, 1)
	}
	return controlRound(e, v, s, 20*time.Second)
}

func unnoticedStop(e *Environment, v *Verdict) []Finding {
	s := calmSpec()
	s.keys = 1
	s.lockTimeouts = []time.Duration{200 * time.Millisecond}
	s.intruder = func(r *Round) {
		strike := &Strike{r, rand.New(rand.NewSource(1)), 0}
		sleepMillis(1000)
		pid := strike.catch(phaseAcquiring)
		signalBackend(pid, syscall.SIGSTOP)
		sleepMillis(7000)
		signalBackend(pid, syscall.SIGCONT)
	}
	return controlRound(e, v, s, 2*time.Second)
}

func plantedLog(e *Environment, _ *Verdict) []Finding {
	var found []Finding

	e.nodes[0].badLog()
	e.nodes[0].query("DO $$ BEGIN RAISE 'planted' USING ERRCODE = 'XX000'; END $$")
	for _, line := range e.nodes[0].badLog() {
		found = append(found, Finding{"server log", line})
	}
	return found
}

func lossWithoutFault(e *Environment, v *Verdict) []Finding {
	s := calmSpec()
	s.faults = func(f *Fault) bool { return f.name == "FLUSHALL" }
	return controlRound(e, v, s, 3*time.Second)
}
