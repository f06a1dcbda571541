// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"syscall"
	"time"
)

// Negative controls of independent masters
var mastersControls = []control{
	{"masters that forget and do not start again", "exclusion", true, hiddenLoss},
	{"a lock taken at fewer masters than half", "exclusion", false, tooFew},
	{"a release at most masters that does not ask for the owner", "exclusion", false,
		mastersBlindRelease},
	{"fencing counters set back at most masters", "exclusion", false, countersSetBack},
	{"commit_guard = off and sessions stopped for longer than the lease",
		"guarded table", false, guardOff},
	{"no fencing while masters forget", "guarded table", false, mastersUnfenced},
	{"a key left at one master", "leftovers", false, plantedKey},
	{"losses that no fault explains", "losses", false, mastersLoss},
	{"an internal error in the server log", "server log", false, plantedLog},
}

// A round of somebody who does not do what he is told, with sessions beside him
func mastersControl(e *Environment, v *Verdict, s Spec, length time.Duration,
	fault func(*Strike) error) []Finding {
	s.lease = mastersLease
	if err := e.masters.settle(e.nodes); err != nil {
		return []Finding{{"rig", err.Error()}}
	}
	if fault != nil {
		s.faults = func(*Fault) bool { return false }
		s.only = &Fault{name: "of a control", do: fault}
	}
	return controlRound(e, v, s, length)
}

// hiddenLoss: one has a lock, and is not told that all masters have forgotten it; another one
// gets it from them, which are the processes that they were and so have a vote.
func hiddenLoss(e *Environment, _ *Verdict) []Finding {
	spec := validSpec().of(lockKind)
	// All of it is over before that, however slow it is.
	spec.lease = 2 * mastersLease
	r := newRound(e, spec, "hidden-loss", 1)
	if err := r.prepare(); err != nil {
		return []Finding{{"rig", err.Error()}}
	}
	r.until = time.Now().Add(2 * spec.lease)
	first := newSession(r, "first", e.nodes[0], 1)
	second := newSession(r, "second", e.nodes[1], 2)
	at := slot{key: r.keys[0]}
	if !first.connect() || !second.connect() || !first.acquire(at, want{}) {
		return []Finding{{"rig", "no lock to begin with"}}
	}

	watchdog := e.nodes[0].watchdog()
	signalBackend(watchdog, syscall.SIGSTOP)
	err := e.masters.forget()
	for end := time.Now().Add(spec.lease / 2); err == nil && time.Now().Before(end); sleepMillis(100) {
		if second.acquire(at, want{try: true}) {
			break
		}
	}
	first.isHeld(at)
	if second.holds[at] != nil {
		second.release(at)
	}
	signalBackend(watchdog, syscall.SIGCONT)
	first.disconnect(false)
	second.disconnect(false)
	if err != nil {
		return []Finding{{"rig", err.Error()}}
	}
	calls, _ := r.hist.snapshot()
	return checkExclusion(calls, 10*time.Second, "")
}

// forget has all of them forget what they know, as the processes that they are.
func (m *Masters) forget() error {
	for _, r := range m.nodes {
		if _, err := r.cmd("FLUSHALL"); err != nil {
			return err
		}
	}
	return nil
}

// tooFew: somebody takes it at two masters, which is not refused if he does not count.
func tooFew(e *Environment, v *Verdict) []Finding {
	s := calmSpec()
	s.keys = 1
	s.intruder = func(r *Round) {
		b := bareIntruder(r, func(b *Bare) { b.ignoresLock = true })
		b.address = func() string { return e.masters.bare[0].address() }
		b.run()
	}
	return mastersControl(e, v, s, 3*time.Second, nil)
}

func mastersBlindRelease(e *Environment, v *Verdict) []Finding {
	s := calmSpec()
	s.keys = 1
	s.intruder = func(r *Round) {
		for !r.over() {
			for _, store := range e.stores()[:mastersQuorum] {
				store.cmd("DEL", r.keys[0])
			}
			sleepMillis(20)
		}
	}
	return mastersControl(e, v, s, 4*time.Second, nil)
}

func countersSetBack(e *Environment, v *Verdict) []Finding {
	s := calmSpec()
	s.keys = 1
	s.work = func(session *Session) {
		at := slot{key: session.key()}
		if session.acquire(at, want{fenced: true}) {
			session.release(at)
		}
	}
	s.intruder = func(r *Round) {
		for !r.over() {
			for _, store := range e.stores() {
				store.cmd("SET", "redisson_lock_token:{"+r.keys[0]+"}", 1)
			}
			sleepMillis(500)
		}
	}
	return mastersControl(e, v, s, 3*time.Second, nil)
}

func mastersUnfenced(e *Environment, v *Verdict) []Finding {
	s := fencingSpec()
	s.keys = 1
	s.think = 5 * time.Millisecond
	s.gap = 50 * time.Millisecond
	s.work = func(session *Session) {
		key := session.key()
		if session.acquire(slot{key: key}, want{try: true, wait: time.Second}) {
			session.writers.to(session.w, session.name, e.nodes[0]).writePlain(key)
			session.release(slot{key: key})
		}
	}
	return mastersControl(e, v, s, 5*time.Second, func(strike *Strike) error {
		return strike.eachMaster(strike.most(), "FLUSHALL")
	})
}

func mastersLoss(e *Environment, v *Verdict) []Finding {
	return mastersControl(e, v, calmSpec(), 3*time.Second, func(strike *Strike) error {
		return strike.eachMaster(strike.most(), "FLUSHALL")
	})
}

// checkMasters: what befalls few of them nobody feels, and what befalls most of them
// everybody does.
func checkMasters(e *Environment, tell func(string)) []Finding {
	var found []Finding

	node := e.nodes[0]
	if err := node.set(map[string]string{"lockredis.connect_timeout": "500ms",
		"lockredis.command_timeout": "500ms"}); err != nil {
		return []Finding{{"rig", err.Error()}}
	}
	faults := []struct {
		name       string
		begin, end func(int) error
	}{
		{"stopped", func(i int) error { freeze(e.masters.nodes[i]); return nil },
			func(i int) error { return thaw(e.masters.nodes[i]) }},
		{"OOM", e.tellMaster("CONFIG", "SET", "maxmemory", 1),
			e.tellMaster("CONFIG", "SET", "maxmemory", 0)},
		{"READONLY", e.tellMaster("REPLICAOF", "127.0.0.1", 1),
			e.tellMaster("REPLICAOF", "NO", "ONE")},
	}
	for _, kind := range []string{stallBoth, stallRequests, stallReplies, dropRequests,
		dropReplies, cutReplies, resetRequests, truncateBoth, refuseAll} {
		kind := kind
		faults = append(faults, struct {
			name       string
			begin, end func(int) error
		}{"proxy: " + kind,
			func(i int) error { e.masters.links[0][i].begin(kind, 1, 0); return nil },
			func(i int) error { e.masters.links[0][i].end(kind); return nil }})
	}
	const request = "SELECT redis_try_lock('felt'); SELECT redis_unlock('felt')"
	for _, f := range faults {
		for _, n := range []int{mastersCount - mastersQuorum, mastersQuorum} {
			for i := 0; i < n; i++ {
				if err := f.begin(i); err != nil {
					return append(found, Finding{"rig", f.name + ": " + err.Error()})
				}
			}
			_, err := node.query(request)
			for i := 0; i < n; i++ {
				if err := f.end(i); err != nil {
					return append(found, Finding{"rig", f.name + ": " + err.Error()})
				}
			}
			if felt := err != nil; felt != (n >= mastersQuorum) {
				found = append(found, Finding{"self-test",
					fmt.Sprintf("%d masters %s: %v", n, f.name, err)})
			}
			if err := e.masters.settle(e.nodes); err != nil {
				return append(found, Finding{"rig", f.name + ": " + err.Error()})
			}
			for end := time.Now().Add(20 * time.Second); ; sleepMillis(100) {
				if _, err = node.query(request); err == nil {
					break
				}
				if time.Now().After(end) {
					return append(found, Finding{"self-test",
						fmt.Sprintf("%s is over, but felt: %v", f.name, err)})
				}
			}
		}
	}
	tell(fmt.Sprintf("%d faults were felt at %d masters of %d, and not at %d", len(faults),
		mastersQuorum, mastersCount, mastersCount-mastersQuorum))
	return found
}

func (e *Environment) tellMaster(words ...interface{}) func(int) error {
	return func(i int) error {
		_, err := e.masters.nodes[i].cmd(words...)
		return err
	}
}
