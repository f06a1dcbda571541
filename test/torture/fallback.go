// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"syscall"
	"time"
)

// Fallback mode: one server, whose locks are in Redis, and in its table while that is
// away.  It promises that no two of its sessions have a key, so nobody else takes part.

func (e *Environment) inFallback() bool { return e.options.topology == "fallback" }

// hasRows: the server has a table worker, and locks in its tables at times.
func (e *Environment) hasRows() bool { return e.inTable() || e.inFallback() }

const (
	fallbackLease = 4 * time.Second

	// So long Redis is silent before the table takes over: less than two thirds of each
	// lease that there is in a round.
	fallbackAfter = 600 * time.Millisecond
)

var fallbackSettings = fmt.Sprintf("lockredis.mode = 'fallback'\n"+
	"lockredis.fallback_after = '%s'\n", millis(fallbackAfter))

// Locks of the first three are carried over; of the others it is only said that none is held
// twice, and that no loss is silent.  What nobody owns cannot be acquired during an outage, and
// is neither more nor less after it.
var fallbackKinds = []*Kind{lockKind.withFallback(), fairKind.withFallback(),
	multiKind.withFallback(), readWriteKind.withoutFallback(), tokenKind.withoutFallback(),
	permitKind.withoutFallback(), semaphoreKind.withoutFallback(), latchKind.withoutFallback(),
	conditionKind.withoutFallback()}

func (k Kind) withFallback() *Kind {
	specs := []func() Spec{fallbackSpec}
	if k.name == "lock" {
		specs = []func() Spec{fallbackSpec, fallbackFencingSpec, fallbackGuardSpec,
			fallbackSpec, fallbackDeadlockSpec}
	}
	return k.inRounds(specs)
}

func (k Kind) withoutFallback() *Kind { return k.inRounds([]func() Spec{fallbackValidSpec}) }

func (k Kind) inRounds(specs []func() Spec) *Kind {
	k.specs = nil
	for _, spec := range specs {
		k.specs = append(k.specs, k.shaped(spec))
	}
	return &k
}

// fallbackSpec: Redis is away, for moments and for up to two leases.  No lock is lost by
// that.  Tokens of Redis and those of the table do not continue each other, except in
// the table that they guard.
func fallbackSpec() Spec {
	s := ordinary("outages")
	s.lease = fallbackLease
	// Keys that nobody here had wait for one lease, and until Redis is steady.
	s.settles = 2 * fallbackLease
	s.forgets = true
	s.gap = 400 * time.Millisecond
	return s
}

func fallbackFencingSpec() Spec {
	s := fencingSpec()
	s.name = "outages, fencing"
	return s
}

// The guard has to refuse wherever the lock is by then.
func fallbackGuardSpec() Spec {
	s := guardSpec()
	s.name = "outages, commit guard"
	others := s.faults
	s.faults = func(f *Fault) bool { return others(f) || f.outage }
	return s
}

func fallbackDeadlockSpec() Spec {
	s := deadlockSpec()
	s.name = "outages, deadlocks"
	s.lease, s.settles, s.forgets = fallbackLease, 2*fallbackLease, true
	others := s.faults
	s.faults = func(f *Fault) bool { return others(f) || f.outage }
	return s
}

func fallbackValidSpec() Spec {
	s := fallbackSpec()
	s.name = "outages, validity"
	s.losses, s.valid = true, true
	return s
}

func (e *Environment) beginFallback(seed int64) error {
	o := e.options

	e.redis = &Redis{dir: e.dirOf("r"), shim: o.shim, library: o.powercut}
	scheme, network, upstream, err := e.redis.beginBehindProxies(o.tls)
	if err != nil {
		return err
	}
	e.beginNetwork()
	host, enter := e.whereIs(0)
	link, err := newProxy(host+":0", network, upstream, seed)
	if err != nil {
		return err
	}
	e.links = append(e.links, link)
	return e.addPostgres("pg1", scheme+link.address(), enter)
}

// settleFallback: Redis is in use again, and has the locks.
func (e *Environment) settleFallback() error {
	var rows [][]string
	var err error

	for end := time.Now().Add(settleLimit); time.Now().Before(end); sleepMillis(100) {
		rows, err = e.nodes[0].query("SELECT in_use FROM redis_lock_status WHERE role = 'master'")
		if err == nil && len(rows) == 1 && rows[0][0] == "t" {
			return nil
		}
	}
	return fmt.Errorf("Redis is not in use again: %v %v", rows, err)
}

// Redis is away for so long that the table takes over, and a table worker that is not
// always there then.
var fallbackFaults = onlyWith((*Environment).inFallback, []*Fault{
	{name: "outage: Redis stopped", outage: true, do: func(s *Strike) error {
		s.env.redis.proc.signal(syscall.SIGSTOP)
		s.outage()
		s.env.redis.proc.signal(syscall.SIGCONT)
		return nil
	}},
	{name: "outage: Redis killed, started again with its data", outage: true,
		do: func(s *Strike) error {
			s.env.redis.crash()
			s.outage()
			return s.env.redis.start()
		}},
	{name: "outage: nobody reaches Redis", outage: true, do: func(s *Strike) error {
		kind := []string{refuseAll, stallBoth, stallReplies, dropRequests,
			dropReplies}[s.rng.Intn(5)]
		link := s.link()
		link.begin(kind, 1, 0)
		s.outage()
		link.end(kind)
		return nil
	}},
	{name: "outage: Redis comes and goes", outage: true, do: func(s *Strike) error {
		for end := time.Now().Add(s.spec.lease); time.Now().Before(end); {
			s.env.redis.proc.signal(syscall.SIGSTOP)
			time.Sleep(fallbackAfter/2 + time.Duration(s.rng.Int63n(int64(fallbackAfter))))
			s.env.redis.proc.signal(syscall.SIGCONT)
			time.Sleep(time.Duration(s.rng.Int63n(int64(2 * time.Second))))
		}
		return nil
	}},
})

// outage lasts for up to two leases; now and then something befalls the table worker,
// too, for a moment.
func (s *Strike) outage() {
	end := time.Now().Add(fallbackAfter + time.Duration(s.rng.Int63n(int64(2*s.spec.lease))))

	for time.Now().Before(end) {
		node := s.node()
		node.mu.Lock()
		worker := node.tableWorker()
		switch s.rng.Intn(6) {
		case 0:
			node.terminate(worker)
		case 1:
			signalBackend(worker, syscall.SIGSTOP)
			time.Sleep(time.Duration(s.rng.Int63n(int64(s.spec.lease) / 6)))
			signalBackend(worker, syscall.SIGCONT)
		case 2:
			watchdog := node.watchdog()
			signalBackend(watchdog, syscall.SIGSTOP)
			time.Sleep(time.Duration(s.rng.Int63n(int64(s.spec.lease) / 6)))
			signalBackend(watchdog, syscall.SIGCONT)
		}
		node.mu.Unlock()
		time.Sleep(time.Duration(s.rng.Int63n(int64(s.spec.lease) / 2)))
	}
}

// What is there only with an outage
var fallbackControls = []control{
	{"a session that keeps its lock", "leftovers", false, plantedHold},
	{"a row of somebody else", "leftovers", true, plantedRow},
	{"a key left in Redis", "leftovers", false, plantedKey},
	{"commit_guard = off and sessions stopped for longer than the lease", "guarded table", false,
		guardOff},
	{"an outage that the table does not stand in for", "losses", true, outageWithoutTable},
	{"an internal error in the server log", "server log", false, plantedLog},
}

// outageWithoutTable: fallback_after is longer than the outage, which lasts for longer
// than the lease.
func outageWithoutTable(e *Environment, v *Verdict) []Finding {
	node := e.nodes[0]
	if err := node.set(map[string]string{"lockredis.fallback_after": "1d",
		"lockredis.mode": "redis"}); err != nil {
		return []Finding{{"rig", err.Error()}}
	}
	if err := node.restart(syscall.SIGINT); err != nil {
		return []Finding{{"rig", err.Error()}}
	}
	s := fallbackSpec()
	s.lease = 2 * time.Second
	s.hold = 5 * time.Second
	s.faults = nil
	s.intruder = func(r *Round) {
		sleepMillis(500)
		w := r.hist.beginFault("outage", false)
		e.redis.proc.signal(syscall.SIGSTOP)
		sleepMillis(4500)
		e.redis.proc.signal(syscall.SIGCONT)
		r.hist.endFault(w)
	}
	found := controlRound(e, v, s, 5*time.Second)
	err := node.set(map[string]string{"lockredis.fallback_after": millis(fallbackAfter),
		"lockredis.mode": "fallback"})
	if err == nil {
		err = node.restart(syscall.SIGINT)
	}
	if err != nil {
		found = append(found, Finding{"rig", err.Error()})
	}
	return found
}
