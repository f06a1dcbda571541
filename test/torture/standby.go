// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// Two servers of which one is a copy of the other: its standby, which is promoted when the
// other one dies ("standby", with a Redis, and "standby-table", table mode), or a base
// backup that is restored and runs beside it ("copy", with a Redis).
//
// The standby is synchronous, so that each commit that was acknowledged is on it.

func (e *Environment) hasStandby() bool {
	return strings.HasPrefix(e.options.topology, "standby")
}

func (e *Environment) hasCopy() bool { return e.options.topology == "copy" }

const standbySettings = "max_standby_streaming_delay = -1\nhot_standby_feedback = on\n" +
	"synchronous_commit = remote_apply\n"

// beginCopied is after the servers have been made, each by itself.
func (e *Environment) beginCopied() error {
	if !e.hasStandby() {
		return nil
	}
	e.nodes[1].stop()
	if err := e.nodes[1].copyOf(e.nodes[0], true); err != nil {
		return err
	}
	return e.awaitStandby()
}

// What a server is that may not write, or could not when it was asked last
const (
	standbyNot = iota
	standbyFollows
	standbyPromoted
)

func (p *Postgres) isStandby() bool { return atomic.LoadInt32(&p.standby) == standbyFollows }

// tablesOf is the name of the tables that a server has: a standby has those of its primary.
func (e *Environment) tablesOf(node *Postgres) string {
	if e.hasStandby() {
		return "one"
	}
	return node.name
}

// primary is the server that may write.
func (e *Environment) primary() *Postgres {
	for _, node := range e.nodes {
		if atomic.LoadInt32(&node.standby) == standbyNot {
			return node
		}
	}
	return e.nodes[0]
}

// copyOf makes it a base backup of the other one, with its own settings, and starts it.
func (p *Postgres) copyOf(other *Postgres, standby bool) error {
	conf := filepath.Join(p.data(), "postgresql.conf")
	settings, err := os.ReadFile(conf)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(p.data()); err != nil {
		return err
	}
	if err := run("pg_basebackup", "-D", p.data(), "-h", other.dir, "-p", "5432",
		"-U", "torture", "-c", "fast", "--no-sync"); err != nil {
		return err
	}
	if err := os.WriteFile(conf, settings, 0o600); err != nil {
		return err
	}
	automatic := filepath.Join(p.data(), "postgresql.auto.conf")
	lines, err := os.ReadFile(automatic)
	if err != nil {
		return err
	}
	text := string(lines) + "synchronous_standby_names = ''\n"
	if standby {
		text += fmt.Sprintf("primary_conninfo = 'host=%s port=5432 user=torture'\n", other.dir)
		if err := os.WriteFile(filepath.Join(p.data(), "standby.signal"), nil, 0o600); err != nil {
			return err
		}
	}
	if err := os.WriteFile(automatic, []byte(text), 0o600); err != nil {
		return err
	}
	atomic.StoreInt32(&p.standby, map[bool]int32{true: standbyFollows}[standby])
	return p.start()
}

// awaitStandby: it has all that the primary has, and commits wait for it from now on.
func (e *Environment) awaitStandby() error {
	var rows [][]string
	var err error

	for end := time.Now().Add(settleLimit); time.Now().Before(end); sleepMillis(100) {
		rows, err = e.primary().query("SELECT 1 FROM pg_stat_replication " +
			"WHERE state = 'streaming' AND replay_lsn >= pg_current_wal_lsn()")
		if err == nil && len(rows) == 1 {
			return e.primary().set(map[string]string{"synchronous_standby_names": "*"})
		}
	}
	return fmt.Errorf("the standby does not follow: %v %v", rows, err)
}

// promote kills the primary and promotes its standby; the dead one is made anew as the
// standby of that.  Nobody waits for a standby until it is there.
func (s *Strike) promote() error {
	old := s.env.primary()
	fresh := s.env.nodes[0]
	if fresh == old {
		fresh = s.env.nodes[1]
	}
	s.checkInstances()
	old.mu.Lock()
	defer old.mu.Unlock()
	fresh.mu.Lock()
	defer fresh.mu.Unlock()

	if err := old.crash(); err != nil {
		return err
	}
	time.Sleep(s.length)
	atomic.StoreInt32(&fresh.standby, standbyPromoted)
	rows, err := fresh.query("SELECT pg_promote(true, 30)")
	if err != nil || rows[0][0] != "t" {
		return fmt.Errorf("%s was not promoted: %v %v", fresh.name, rows, err)
	}
	atomic.StoreInt32(&fresh.standby, standbyNot)
	if err := old.copyOf(fresh, true); err != nil {
		return err
	}
	if err := s.env.awaitStandby(); err != nil {
		return err
	}
	s.checkInstances()
	return nil
}

// restoreBeside: what is restored was taken while the other one had locks.
func (s *Strike) restoreBeside() error {
	original, other := s.env.nodes[0], s.env.nodes[1]

	s.checkInstances()
	other.mu.Lock()
	defer other.mu.Unlock()
	other.killAll()
	if err := other.copyOf(original, false); err != nil {
		return err
	}
	s.checkInstances()
	return nil
}

// checkInstances: no server may have the name of another one, nor one that it had before.
func (s *Strike) checkInstances() {
	for _, node := range s.env.nodes {
		rows, err := node.query("SELECT redis_lock('instance-" + node.name + "'); " +
			"SELECT split_part(owner, ':', 1) FROM redis_locks WHERE pid = pg_backend_pid()")
		if err != nil || len(rows) == 0 {
			continue // a standby without a Redis has no locks
		}
		name, started := rows[0][0], fmt.Sprintf("%s as started for the %dth time", node.name, node.starts)
		if other := s.env.instances[name]; other != "" && other != started {
			s.find("instances", "%s is the instance %s, as was %s", started, name, other)
		}
		s.env.instances[name] = started
	}
}

// A client of a server that may be a standby does there what is possible.
func workOnEither(s *Session) {
	switch {
	case !s.node.isStandby():
		if s.w.spec.kind.name == lockKind.name && s.chance(0.5) {
			workFencedHere(s)
			return
		}
	case s.w.env.inTable():
		// It is refused, at once.
		s.think(200 * time.Millisecond)
	}
	anyWork(s)
}

// standbySpec: what was acknowledged is there after a promotion: commits, tokens in the
// tables, and what of locks is not of sessions.  Nobody cancels a commit that waits for the
// standby, which would be acknowledged without it.
func standbySpec() Spec {
	s := ordinary("promotions")
	s.lease = 6 * time.Second
	s.work = workOnEither
	s.crashes = true
	s.gap = 2 * time.Second
	s.faults = func(f *Fault) bool {
		return f.promotes || f.name == "holder stopped" || f.name == "watchdog terminated"
	}
	return s
}

// copySpec: the other server is another one each time, with the rows that the original
// had, and has locks of its own.
func copySpec() Spec {
	s := ordinary("base backups")
	s.lease = 6 * time.Second
	s.crashes = true
	s.gap = 2 * time.Second
	s.faults = func(f *Fault) bool { return f.promotes || f.sessions && f.mild }
	return s
}

// Those that need nothing to be set before, and nothing of the server but locks
func copiedKinds(topology string) []*Kind {
	spec := standbySpec
	kinds := []*Kind{lockKind, fairKind, tokenKind, readWriteKind}
	if topology == "copy" {
		spec = copySpec
		kinds = []*Kind{lockKind, fairKind, multiKind, tokenKind}
	}
	var all []*Kind
	for _, k := range kinds {
		all = append(all, k.inRounds([]func() Spec{spec}))
	}
	return all
}

var standbyFaults = append(onlyWith((*Environment).hasStandby, []*Fault{
	{name: "primary killed, standby promoted", crash: true, promotes: true,
		do: (*Strike).promote},
}), onlyWith((*Environment).hasCopy, []*Fault{
	{name: "base backup restored beside the original", crash: true, promotes: true,
		do: (*Strike).restoreBeside},
})...)

// Negative controls of copies
var standbyControls = []control{
	{"a standby that has not received what was acknowledged", "guarded table", true, promoteBehind},
	{"an instance that another server was", "instances", false, plantedInstance},
}

// In table mode it has no locks.
var standbyTableControls = []control{standbyControls[0],
	{"a standby that has locks", "standby", true, plantedStandby}}

var copyControls = []control{
	{"an instance that another server was", "instances", true, plantedInstance},
	{"a client that ignores the lock", "exclusion", false, ignoredLock},
}

// promoteBehind: the standby is told to follow nobody, and nobody waits for it.
func promoteBehind(e *Environment, _ *Verdict) []Finding {
	r := newRound(e, standbySpec(), "behind", 1)
	strike := &Strike{Round: r}
	old, standby := e.primary(), e.nodes[0]
	if standby == old {
		standby = e.nodes[1]
	}

	err := old.set(map[string]string{"synchronous_standby_names": ""})
	if err == nil {
		_, err = old.query("INSERT INTO guarded VALUES ('behind', 0)")
	}
	if err == nil {
		err = e.awaitStandby()
	}
	if err == nil {
		err = old.set(map[string]string{"synchronous_standby_names": ""})
	}
	if err == nil {
		err = standby.set(map[string]string{"primary_conninfo": ""})
	}
	for end := time.Now().Add(settleLimit); err == nil && time.Now().Before(end); sleepMillis(50) {
		if standby.child("walreceiver") == 0 {
			break
		}
	}
	if err == nil {
		_, err = old.query("UPDATE guarded SET value = 1 WHERE key = 'behind'; INSERT INTO " +
			"guarded_log (key, value, token, tag) VALUES ('behind', 1, 1, 'acknowledged')")
	}
	if err == nil {
		err = strike.promote()
	}
	if err != nil {
		return []Finding{{"rig", err.Error()}}
	}
	found, _ := checkGuarded(e.primary(), []string{"behind"}, map[string]bool{"acknowledged": true})
	return found
}

func plantedStandby(e *Environment, _ *Verdict) []Finding {
	r := newRound(e, standbySpec(), "planted-standby", 1)
	r.until = time.Now().Add(time.Minute)
	node := e.primary()
	atomic.StoreInt32(&node.standby, standbyFollows)
	s := newSession(r, "planted", node, 1)
	if s.connect() && s.acquire(slot{key: "planted"}, want{}) {
		s.release(slot{key: "planted"})
	}
	s.disconnect(false)
	atomic.StoreInt32(&node.standby, standbyNot)
	return r.found
}

func plantedInstance(e *Environment, _ *Verdict) []Finding {
	r := newRound(e, copySpec(), "planted", 1)
	strike := &Strike{Round: r}

	strike.checkInstances()
	for name := range e.instances {
		e.instances[name] = "somebody else"
	}
	strike.checkInstances()
	return r.found
}
