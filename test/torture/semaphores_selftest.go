// Copyright (c) 2026, lockredis contributors

package main

import "time"

var semaphoreControls = []control{
	{"a permit that is given back twice", "leftovers", false, givenBackTwice},
}

func givenBackTwice(e *Environment, v *Verdict) []Finding {
	s := calmSpec().of(semaphoreKind)
	s.intruder = func(r *Round) {
		r.env.nodes[0].query("SELECT redis_semaphore_release('" + r.semaphore(0).key + "')")
	}
	return controlRound(e, v, s, 2*time.Second)
}
