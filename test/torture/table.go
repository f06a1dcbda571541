// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"strings"
	"syscall"
	"time"
)

// Table mode: a server that keeps the locks in tables of its own, written by a worker.

func (e *Environment) inTable() bool { return strings.HasSuffix(e.options.topology, "table") }

func (e *Environment) beginTable() error {
	err := e.addPostgres("pg1", "", nil)
	if err == nil && e.hasStandby() {
		err = e.addPostgres("pg2", "", nil)
	}
	return err
}

// settleTable waits until the worker answers again, after what the last round did to it.
func (e *Environment) settleTable() error {
	var err error

	for end := time.Now().Add(settleLimit); time.Now().Before(end); sleepMillis(100) {
		if _, err = e.primary().query("SELECT redis_is_locked('settled')"); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the table worker does not answer: %w", err)
}

// Permits and the like are set, and stay; a row that keeps a key for its holder does not.
func (e *Environment) rowsLeft() []string {
	var left []string

	for _, table := range []string{"redis_lock_rows", "redis_lock_shares"} {
		rows, err := e.primary().query("SELECT r FROM " + table + " r " +
			"WHERE expires_at > clock_timestamp()")
		if err != nil {
			left = append(left, table+": "+err.Error())
		}
		for _, row := range rows {
			left = append(left, table+": "+row[0])
		}
	}
	return left
}

// forgetRows: numbers that nobody needs any more.
func (e *Environment) forgetRows(keys ...interface{}) {
	var names []string

	for _, key := range keys {
		names = append(names, fmt.Sprintf("'%v'", key))
	}
	e.primary().query("DELETE FROM redis_lock_values WHERE key IN (" +
		strings.Join(names, ", ") + ")")
}

// Faults of the worker that writes the tables
var tableFaults = onlyWith((*Environment).hasRows, []*Fault{
	{name: "table worker stopped", do: func(s *Strike) error {
		node := s.node()
		node.mu.Lock()
		defer node.mu.Unlock()
		pid := node.tableWorker()
		signalBackend(pid, syscall.SIGSTOP)
		s.rest()
		signalBackend(pid, syscall.SIGCONT)
		return nil
	}},
	{name: "table worker terminated", do: func(s *Strike) error {
		node := s.node()
		node.mu.Lock()
		defer node.mu.Unlock()
		node.terminate(node.tableWorker())
		return nil
	}},
	{name: "table worker killed", crash: true, do: func(s *Strike) error {
		node := s.node()
		return s.crashed(node, func() {
			signalBackend(node.tableWorker(), syscall.SIGKILL)
		})
	}},
	{name: "a row is locked by another transaction", do: func(s *Strike) error {
		other := newSession(s.Round, "other", s.node(), s.rng.Int63())
		if !other.connect() {
			return nil
		}
		defer other.disconnect(false)
		// Whatever befalls the server befalls this one, too.
		other.exec("BEGIN; SELECT FROM redis_lock_rows WHERE key = '" +
			s.keys[s.rng.Intn(len(s.keys))] + "' FOR UPDATE")
		s.rest()
		other.exec("COMMIT")
		return nil
	}},
	{name: "rows deleted", breaks: true, do: func(s *Strike) error {
		for i := 0; i < 5; i++ {
			key := s.keys[s.rng.Intn(len(s.keys))]
			_, err := s.node().query("DELETE FROM redis_lock_rows WHERE key = '" + key + "'")
			if err != nil && s.node().watchdog() != 0 {
				return err
			}
			time.Sleep(s.length / 5)
		}
		return nil
	}},
})

// What others than PostgreSQL do with a store has no meaning there.
var tableControls = []control{
	{"a session that keeps its lock", "leftovers", false, plantedHold},
	{"a row of somebody else", "leftovers", true, plantedRow},
	{"commit_guard = off and sessions stopped for longer than the lease",
		"guarded table", true, guardOff},
	{"rows that are deleted", "losses", false, lossOfRows},
	{"an internal error in the server log", "server log", false, plantedLog},
}

func plantedRow(e *Environment, _ *Verdict) []Finding {
	e.primary().query("INSERT INTO redis_lock_rows (key, owner, lease, expires_at) " +
		"VALUES ('planted', '00000000-0000-0000-0000-000000000000:1/kept', '1 min', clock_timestamp() + '1 min'::interval)")
	return e.checkLeftovers(time.Second)
}

func lossOfRows(e *Environment, v *Verdict) []Finding {
	s := calmSpec()
	s.faults = func(f *Fault) bool { return f.name == "rows deleted" }
	s.gap = 100 * time.Millisecond
	return controlRound(e, v, s, 5*time.Second)
}
