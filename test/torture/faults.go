// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"math/rand"
	"sort"
	"sync/atomic"
	"time"
)

// A Fault is one way in which things go wrong.
type Fault struct {
	name string

	// What it may do even if it is short: take data or change the clock of Redis.
	// Then two clients may have a key, and only fencing can be relied on.
	breaks bool

	// A part of what has the locks forgets some, and is to be told of them again.  And
	// so much that some are lost, though nobody else has them then.
	forgets, loses bool

	// A crash of a server: not often, because the locks of its sessions stay until
	// their leases end and everybody waits.
	crash bool

	// It befalls sessions only, so it may come at the same time as another one.
	sessions bool

	// Redis is away for so long that the table takes over.
	outage bool

	// A server becomes a copy of another one, or takes its place.
	promotes bool

	// With -power it takes what was not synced, or lets nothing be written.
	power bool

	// It keeps nobody from answering or from being woken.
	mild bool

	// It changes the clock of PostgreSQL, which is that of the store in table mode.
	clock bool

	possible func(*Environment) bool

	// Does it, for so long, and undoes it.  An error is one of the rig.
	do func(*Strike) error
}

// A Strike is one use of a fault.
type Strike struct {
	*Round
	rng    *rand.Rand
	length time.Duration
}

// rest sleeps for what the fault is to last.
func (s *Strike) rest() { time.Sleep(s.length) }

func (s *Strike) node() *Postgres {
	return s.env.nodes[s.rng.Intn(len(s.env.nodes))]
}

// link is a connection of one of the servers to the one Redis.
func (s *Strike) link() *Proxy {
	return s.env.links[s.rng.Intn(len(s.env.links))]
}

// victim is a backend, one that holds, waits or releases if there is any.
func (s *Strike) victim(phase int32) int {
	var found, others []int

	for _, session := range s.sessions {
		pid := int(atomic.LoadInt32(&session.pid))
		if pid == 0 {
			continue
		}
		if atomic.LoadInt32(&session.phase) == phase {
			found = append(found, pid)
		} else {
			others = append(others, pid)
		}
	}
	if len(found) == 0 {
		found = others
	}
	if len(found) == 0 {
		return 0
	}
	return found[s.rng.Intn(len(found))]
}

// catch waits for a moment until a session is in that phase: some are short.
func (s *Strike) catch(phase int32) int {
	for tries := 0; tries < 200; tries++ {
		first := s.rng.Intn(len(s.sessions))
		for i := range s.sessions {
			session := s.sessions[(first+i)%len(s.sessions)]
			pid := int(atomic.LoadInt32(&session.pid))
			if pid != 0 && atomic.LoadInt32(&session.phase) == phase {
				return pid
			}
		}
		time.Sleep(time.Millisecond)
	}
	return s.victim(phase)
}

var everyFault []*Fault

func init() {
	for _, list := range [][]*Fault{redisFaults, sentinelFaults, mastersFaults, tableFaults,
		fallbackFaults, powerFaults, standbyFaults, postgresFaults, networkFaults} {
		everyFault = append(everyFault, list...)
	}
}

// A lane is a sequence of faults; two lanes of a round overlap.
type lane struct {
	r       *Round
	rng     *rand.Rand
	used    map[string]int
	crashed bool
	accepts func(*Fault) bool
}

// choose prefers what this round has not had yet.
func (l *lane) choose() *Fault {
	var eligible []*Fault

	if only := l.r.spec.only; only != nil && l.accepts(only) {
		return only
	}
	for _, f := range everyFault {
		if l.r.spec.faults(f) && l.accepts(f) && !(f.crash && l.crashed && !l.r.spec.crashes) &&
			!(f.clock && l.r.env.inTable() && l.r.spec.kind.ends) &&
			(f.possible == nil || f.possible(l.r.env)) {
			eligible = append(eligible, f)
		}
	}
	if len(eligible) == 0 {
		return nil
	}
	if l.rng.Intn(3) == 0 {
		eligible = worst(eligible)
	}
	l.rng.Shuffle(len(eligible), func(i, j int) {
		eligible[i], eligible[j] = eligible[j], eligible[i]
	})
	sort.SliceStable(eligible, func(i, j int) bool {
		return l.used[eligible[i].name] < l.used[eligible[j].name]
	})
	l.used[eligible[0].name]++
	return eligible[0]
}

// worst are those that take data or change the clock of Redis, or keep it away, if any may.
func worst(faults []*Fault) []*Fault {
	var breaking []*Fault

	for _, f := range faults {
		if f.breaks || f.outage {
			breaking = append(breaking, f)
		}
	}
	if len(breaking) == 0 {
		return faults
	}
	return breaking
}

// run does one fault after the other until the round is over.
func (l *lane) run() error {
	for {
		time.Sleep(l.r.spec.gap + time.Duration(l.rng.Int63n(int64(l.r.spec.gap)+1)))
		if l.r.over() {
			return nil
		}
		f := l.choose()
		if f == nil {
			continue
		}
		l.crashed = l.crashed || f.crash
		if err := l.r.strike(f, l.rng.Int63()); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
}

// injectFaults returns when the round is over.  What befalls sessions comes at the
// same time as what befalls Redis, the network and the watchdog; two of the latter
// in turn could last longer than a lease.
func (r *Round) injectFaults() error {
	if r.spec.faults == nil {
		for !r.over() {
			sleepMillis(100)
		}
		return nil
	}
	lanes := []*lane{
		{r: r, accepts: func(f *Fault) bool { return !f.sessions }},
		{r: r, accepts: func(f *Fault) bool { return f.sessions }},
	}
	ended := make(chan error, len(lanes))
	for _, l := range lanes {
		l.rng = rand.New(rand.NewSource(r.rng.Int63()))
		l.used = map[string]int{}
	}
	for _, l := range lanes {
		l := l
		go func() { ended <- l.run() }()
	}
	var failed error
	for range lanes {
		if err := <-ended; err != nil {
			failed = err
			atomic.StoreInt32(&r.ended, 1)
		}
	}
	return failed
}

func (r *Round) strike(f *Fault, seed int64) error {
	rng := rand.New(rand.NewSource(seed))
	length := 100*time.Millisecond + time.Duration(rng.Int63n(int64(r.spec.lease)/6))
	if r.spec.losses {
		length = r.spec.lease/2 + time.Duration(rng.Int63n(int64(r.spec.lease)*2))
	}
	if r.spec.losses && r.env.masters != nil {
		// Who has no vote is away for a lease already.
		length = time.Duration(rng.Int63n(int64(r.spec.lease) * 3 / 2))
	}
	w := r.hist.beginFault(f.name, f.mild)
	defer r.hist.endFault(w)
	return f.do(&Strike{r, rng, length})
}

// crashes: whether a server may have crashed without its sessions' notice.
func (r *Round) crashes() bool {
	for _, f := range everyFault {
		if r.spec.faults != nil && f.crash && r.spec.faults(f) {
			return true
		}
	}
	return false
}
