// Copyright (c) 2026, lockredis contributors

package main

import "time"

var tokenControls = []control{
	{"a token lock that somebody else deletes", "exclusion", false, blindDelete},
}

func blindDelete(e *Environment, v *Verdict) []Finding {
	s := calmSpec().of(tokenKind)
	s.intruder = func(r *Round) {
		b := bareIntruder(r, func(b *Bare) { b.ignoresOwner = true })
		for !r.over() {
			b.giveBack(r.keys[0], "")
			sleepMillis(20)
		}
	}
	return controlRound(e, v, s, 3*time.Second)
}
