// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
)

// Negative controls of the order of fair locks

func fairly(owner string, c Call) Call { c.Fair, c.Owner = true, owner; return c }

func queue(from int64, owners ...string) Queue {
	return Queue{Key: "k", From: from * 1e9, To: from*1e9 + 1, Owners: owners}
}

// b comes when a is in the queue, and is granted before it.
var overtaken = []Call{
	fairly("h", call("h", opLock, 0, 1)), fairly("a", waiting(call("a", opLock, 2, 20))),
	call("h", opUnlock, 5, 6), fairly("b", waiting(call("b", opLock, 4, 8))),
	call("b", opUnlock, 10, 11)}

func doctoredOrder(queues ...Queue) func(*Environment, *Verdict) []Finding {
	return func(*Environment, *Verdict) []Finding { return checkOrder(overtaken, queues) }
}

var fairControls = []control{
	{"a fair lock that is granted to who came later", "order", true,
		doctoredOrder(queue(3, "a"), queue(7, "a"), queue(9, "a"))},
	{"a fair lock that does not look at the queue", "order", true, passedBy},
}

// checkRightOrders must find nothing: the place was lost in between, or the other one
// had been there before.
func checkRightOrders() []Finding {
	found := checkOrder(overtaken, []Queue{queue(3, "a"), queue(7), queue(9, "a")})
	found = append(found, checkOrder(overtaken, []Queue{queue(3, "b", "a"), queue(9, "a")})...)
	return append(found, checkOrder(overtaken, []Queue{queue(7, "a"), queue(9, "a")})...)
}

// A lock is deleted while somebody waits for it in the queue, and another one takes it by
// a plain lock, which is recorded as a fair one.  Who waits may ask just then, or lose
// its place while it is stopped: so it is tried again, for a minute at most.
func passedBy(e *Environment, v *Verdict) []Finding {
	until := time.Now().Add(time.Minute)
	for try := 0; try < 20 && time.Now().Before(until); try++ {
		found := passOnce(e, fmt.Sprintf("passed-by%d", try))
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

func passOnce(e *Environment, name string) []Finding {
	spec := calmSpec().of(fairKind)
	spec.losses = true
	r := newRound(e, spec, name, 1)
	if err := r.prepare(); err != nil {
		return []Finding{{"rig", err.Error()}}
	}
	r.until = time.Now().Add(20 * time.Second)
	at := slot{key: r.keys[0]}
	// Beside the first one the second one would have no place in the queue.
	first, second := newSession(r, "first", e.nodes[0], 1), newSession(r, "second", e.nodes[1], 2)
	third := newSession(r, "third", e.nodes[1], 3)
	for _, s := range []*Session{first, second, third} {
		if !s.connect() {
			return []Finding{{"rig", s.name + " could not connect"}}
		}
		defer s.disconnect(false)
	}
	if !first.acquire(at, want{fair: true}) {
		return []Finding{{"rig", "the first one could not take the lock"}}
	}
	waited := make(chan bool)
	go func() { waited <- second.acquire(at, want{fair: true}) && second.release(at) }()
	for !r.over() && len(r.hist.looks()) == 0 {
		r.look(at.key)
		sleepMillis(10)
	}
	if len(r.hist.looks()) == 0 {
		first.release(at)
		<-waited
		return []Finding{{"rig", "the second one has no place in the queue"}}
	}
	pid := int(atomic.LoadInt32(&second.pid))
	signalBackend(pid, syscall.SIGSTOP)
	e.forget(at.key)
	took := third.acquire(at, want{try: true, asFair: true})
	r.look(at.key)
	signalBackend(pid, syscall.SIGCONT)
	if took {
		third.release(at)
	}
	<-waited
	first.release(at)
	calls, _ := r.hist.snapshot()
	return checkOrder(calls, r.hist.looks())
}
