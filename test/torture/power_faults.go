// Copyright (c) 2026, lockredis contributors

package main

import (
	"strings"
	"time"
)

// With -power: disks that are full for a while.  A power cut is what a kill is then.
var powerFaults = []*Fault{
	{name: "disk of Redis full", power: true, possible: redisCanBeFull, do: func(s *Strike) error {
		return s.fillRedis()
	}},
	{name: "disk of WAL full", power: true, crash: true, possible: hasPower, do: func(s *Strike) error {
		return s.fillWAL()
	}},
	{name: "power of all servers cut at once", power: true, crash: true, possible: redisCanBeFull,
		do: func(s *Strike) error { return s.cutAll() }},
	{name: "power of Redis cut, appendfsync everysec", power: true, breaks: true,
		possible: redisCanBeFull, do: func(s *Strike) error { return s.cutUnsynced() }},
}

func hasPower(e *Environment) bool       { return e.nodes[0].power != nil }
func redisCanBeFull(e *Environment) bool { return e.redis != nil && e.redis.power != nil }

// fillRedis: with appendfsync always it ends itself at the first thing that it cannot
// write; otherwise it refuses to write until it can, and forgets nothing.
func (s *Strike) fillRedis() error {
	r := s.env.redis
	policy := []string{"always", "everysec"}[s.rng.Intn(2)]

	if _, err := r.cmd("CONFIG", "SET", "appendfsync", policy); err != nil {
		return err
	}
	r.power.fill(true)
	s.rest()
	r.power.fill(false)
	if r.proc.wait(0) {
		return r.start()
	}
	// It tries again each second.
	sleepMillis(1200)
	if _, err := r.cmd("CONFIG", "SET", "appendfsync", "always"); err != nil && r.proc.wait(time.Second) {
		return r.start()
	}
	return nil
}

// fillWAL uses up what WAL there is, and then no more can be made: the server ends all its
// processes, and itself if it cannot recover before there is room.
func (s *Strike) fillWAL() error {
	node := s.node()

	node.mu.Lock()
	defer node.mu.Unlock()
	node.power.fill(true)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); sleepMillis(5) {
		if _, err := node.query("SELECT pg_switch_wal()"); err != nil {
			break
		}
	}
	s.rest()
	node.power.fill(false)
	sleepMillis(200)
	if node.proc.ended() {
		return node.start()
	}
	err := node.waitUntilUp(30 * time.Second)
	if err != nil && node.proc.ended() {
		return node.start()
	}
	return err
}

// cutAll: nobody outlives the others.  They come back one after the other, in any order.
func (s *Strike) cutAll() error {
	for _, node := range s.env.nodes {
		node.mu.Lock()
		defer node.mu.Unlock()
	}
	for _, node := range s.env.nodes {
		node.killAll()
	}
	s.env.redis.crash()
	starts := []func() error{s.env.redis.start}
	for _, node := range s.env.nodes {
		if err := node.power.cut(); err != nil {
			return err
		}
		starts = append(starts, node.start)
	}
	for _, i := range s.rng.Perm(len(starts)) {
		time.Sleep(s.length / time.Duration(len(starts)))
		if err := starts[i](); err != nil {
			return err
		}
	}
	return nil
}

// cutUnsynced: Redis loses a second or so of what it has acknowledged, not all, so locks
// and counters are there again as they were before.
func (s *Strike) cutUnsynced() error {
	if _, err := s.env.redis.cmd("CONFIG", "SET", "appendfsync", "everysec"); err != nil {
		return err
	}
	s.rest()
	return s.restartRedis(false)
}

// Rounds of power cuts where there is one place that has the locks: nothing else than
// these befalls a server.  Elsewhere a kill among the other faults is a power cut.
func powerSpecOf(k *Kind, n int) Spec {
	specs := []func() Spec{k.shaped(powerSpec)}
	if k.name == lockKind.name {
		specs = append(specs, powerFencingSpec)
	}
	return specs[n%len(specs)]().of(k)
}

// powerSpec: what was acknowledged is there afterwards, wherever it is.
func powerSpec() Spec {
	s := ordinary("power cuts")
	s.lease = 6 * time.Second
	s.crashes = true
	s.faults = func(f *Fault) bool { return f.power && !f.breaks || f.sessions && f.mild }
	return s
}

func powerFencingSpec() Spec {
	s := fencingSpec()
	s.name = "power cuts, fencing"
	s.crashes = true
	s.faults = func(f *Fault) bool { return f.power || f.name == "FLUSHALL" }
	return s
}

// powerControlsOf: power cuts take something, and leave what was synced.
func powerControlsOf(e *Environment) []control {
	list := powerControls
	if e.redis == nil {
		list = list[:1]
	}
	return list
}

var powerControls = []control{
	{"a PostgreSQL that does not sync, and loses its power", "guarded table", true,
		unsyncedPostgres},
	{"a Redis that does not sync, and loses its power", "losses", true, unsyncedRedis},
}

// A commit is acknowledged that was not flushed.
func unsyncedPostgres(e *Environment, _ *Verdict) []Finding {
	node := e.nodes[0]
	const write = "INSERT INTO guarded_log (key, value, token, tag) VALUES "

	node.query("INSERT INTO guarded VALUES ('cut', 2)")
	// The first one is flushed, and must be there.
	node.query(write + "('cut', 1, 1, 'synced')")
	node.query("SET wal_writer_delay = '10s'; SET synchronous_commit = off; " +
		write + "('cut', 2, 2, 'not synced')")
	err := node.crash()
	if err == nil {
		err = node.start()
	}
	if err != nil {
		return []Finding{{"rig", err.Error()}}
	}
	found, _ := checkGuarded(node, []string{"cut"}, map[string]bool{"synced": true})
	for _, f := range found {
		if strings.Contains(f.Text, "'synced'") || strings.Contains(f.Text, "no value") {
			return []Finding{{"rig", f.String()}}
		}
	}
	return found
}

// The locks of a session are lost with it.
func unsyncedRedis(e *Environment, v *Verdict) []Finding {
	if _, err := e.redis.cmd("CONFIG", "SET", "appendfsync", "no"); err != nil {
		return []Finding{{"rig", err.Error()}}
	}
	s := calmSpec()
	s.hold = time.Second
	s.intruder = func(r *Round) {
		sleepMillis(1500)
		w := r.hist.beginFault("power cut", false)
		defer r.hist.endFault(w)
		e.redis.crash()
		if err := e.redis.start(); err != nil {
			r.find("rig", "%v", err)
		}
	}
	return controlRound(e, v, s, 4*time.Second)
}
