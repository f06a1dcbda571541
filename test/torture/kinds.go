// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"strings"
	"time"
)

// A Kind of lock is what a round takes: how it is taken, what is done with it, and by
// whom else.
type Kind struct {
	name   string
	prefix bool // its rounds are named after it
	bare   bool // the bare client knows it
	ends   bool // some locks end by the clock of the store only, and not with a server

	// How a session wants it, and the mode that keeps everybody else out
	mode  func(*Session) string
	alone string

	// The rest of how it is wanted
	choose func(*Session, slot, *want)

	work     []weighted
	bareRun  func(*Bare, string)           // its one lock and release; nil: step
	redisson func(*RedissonThread, string) // one lock and release; nil: without
	watch    func(*Round)                  // what else is recorded; nil: nothing
	begin    func(*Round) error            // what has to be there; nil: nothing
	end      func(*Round, time.Duration)   // whether it is as it was, in this time
	sweep    func(*Round)                  // what a crash leaves behind until somebody asks
	specs    []func() Spec
	shape    func(func() Spec) func() Spec // of rounds that are not named there; nil: as they are
}

// shaped is such a round with what this kind needs.
func (k *Kind) shaped(of func() Spec) func() Spec {
	if k.shape == nil {
		return of
	}
	return k.shape(of)
}

func onlyAlone(*Session) string { return modeAlone }

// lockKind is the reentrant lock, fenced or not.
var lockKind = &Kind{
	name:   "lock",
	bare:   true,
	ends:   true, // hold_at_least of a job
	mode:   onlyAlone,
	alone:  modeAlone,
	choose: func(s *Session, _ slot, a *want) { a.fenced = s.chance(0.3) },
	work: []weighted{
		{5, workSession},
		{4, workTransaction},
		{3, workReentrant},
		{2, workMixed},
		{2, workSavepoint},
		{2, workTwoKeys},
		{2, workExtend},
		{1, workUnlockAll},
		{1, workVanish},
		{1, workJob},
	},
	redisson: (*RedissonThread).stepAlone,
	specs:    lockSpecs,
}

var everyKind = []*Kind{lockKind, readWriteKind, fairKind, multiKind, tokenKind,
	conditionKind, permitKind, semaphoreKind, latchKind}

// kindsOf are those that are named, with commas between them, of those that the topology
// knows; all if none is.
func kindsOf(topology, names string) ([]*Kind, error) {
	var kinds []*Kind

	known := everyKind
	switch topology {
	case "masters":
		known = mastersKinds
	case "standby", "standby-table", "copy":
		known = copiedKinds(topology)
	case "fallback":
		known = fallbackKinds
	case "sentinel":
		known = sentinelKinds
	}
	if names == "" {
		return known, nil
	}
	for _, name := range strings.Split(names, ",") {
		found := false
		for _, k := range known {
			if k.name == name {
				kinds = append(kinds, k)
				found = true
			}
		}
		if !found {
			return nil, fmt.Errorf("no kind of lock: %s", name)
		}
	}
	return kinds, nil
}
