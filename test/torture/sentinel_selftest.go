// Copyright (c) 2026, lockredis contributors

package main

import "time"

// Negative controls of failovers
var sentinelControls = []control{
	{"min_replicas = 0 and a master that dies ahead of its replicas", "exclusion", true,
		grantedTwice},
	{"a key left in Redis", "leftovers", true, plantedKey},
	{"an internal error in the server log", "server log", false, plantedLog},
}

// controlsOf are those that a topology has a meaning for.
func controlsOf(topology string) []control {
	switch topology {
	case "sentinel":
		return sentinelControls
	case "masters":
		return mastersControls
	case "standby":
		return standbyControls
	case "standby-table":
		return standbyTableControls
	case "copy":
		return copyControls
	case "fallback":
		return fallbackControls
	case "table":
		return tableControls
	}
	var all []control
	for _, some := range [][]control{controls, readWriteControls, fairControls, multiControls,
		tokenControls, conditionControls,
		permitControls, semaphoreControls, latchControls} {
		all = append(all, some...)
	}
	return all
}

// One takes a lock that no replica hears of; another one gets it from the next
// master, while the first one has not asked.
func grantedTwice(e *Environment, _ *Verdict) []Finding {
	spec := sentinelSpec()
	spec.replicas = 0
	r := newRound(e, spec, "granted-twice", 1)
	if err := r.prepare(); err != nil {
		return []Finding{{"rig", err.Error()}}
	}
	r.until = time.Now().Add(time.Minute)
	first := newSession(r, "first", e.nodes[0], 1)
	second := newSession(r, "second", e.nodes[1], 2)
	at, warm := slot{key: r.keys[0]}, slot{key: "warm"}
	for _, s := range []*Session{first, second} {
		if !s.connect() || !s.acquire(warm, want{}) || !s.release(warm) {
			return []Finding{{"rig", s.name + " could not take a lock"}}
		}
	}

	strike := &Strike{Round: r}
	granted := false
	err := strike.killAhead(func() { granted = first.acquire(at, want{}) })
	if err == nil && granted && second.acquire(at, want{try: true, wait: 5 * time.Second}) {
		second.release(at)
	}
	if granted {
		first.release(at)
	}
	first.disconnect(false)
	second.disconnect(false)
	if err != nil {
		return []Finding{{"rig", err.Error()}}
	}
	calls, _ := r.hist.snapshot()
	return checkExclusion(calls, 10*time.Second, "")
}
