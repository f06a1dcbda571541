// Copyright (c) 2026, lockredis contributors

package main

import "time"

// Negative controls of conditions, and a wait that is right.  Clients with an odd number
// take things out.

func sleeps(from, to int64) Call {
	c := call("c1", opWait, from, to)
	c.Sleeps, c.Result = true, "told"
	return c
}

func holding(changes ...Change) map[string]*Buffer {
	for i := range changes {
		changes[i].at *= 1e9
	}
	return map[string]*Buffer{"k": {changes: changes}}
}

func judgeWait(buffers map[string]*Buffer, faults ...Window) []Finding {
	return checkConditions([]Call{sleeps(1, 20)}, faults,
		buffers, Bounds{budget: 2 * time.Second, lease: longLease}, false)
}

var conditionControls = []control{
	{"who sleeps while what he waits for is there", "wake-ups", true,
		func(*Environment, *Verdict) []Finding { return judgeWait(holding(Change{2, 1, false})) }},
	{"who has the lock while another one waits with it", "exclusion", true, doctored(
		call("a", opLock, 0, 1), call("a", opDrop, 2, 6), counted(call("a", opAgain, 2, 6), 1),
		call("b", opLock, 3, 4), call("b", opUnlock, 7, 8))},
	{"changes that nobody is told of", "wake-ups", false, nobodyTold},
}

// checkRightWaits must find nothing: what was there somebody else took, or Redis stood
// still.
func checkRightWaits() []Finding {
	found := judgeWait(holding(Change{2, 1, false}, Change{5, 0, true}, Change{18, 1, false}))
	found = append(found, judgeWait(holding(Change{2, 1, false}, Change{3, 0, true}, Change{4, 1, false},
		Change{7, 2, false}, Change{8, 1, true}, Change{11, 0, true}, Change{17, 1, false}))...)
	return append(found, judgeWait(holding(Change{2, 1, false}), fault("Redis stopped", 2, 16))...)
}

var conditionRight = []rightHistory{
	{"a wait, and who has it meanwhile", []Call{
		call("a", opLock, 0, 1), call("a", opDrop, 2, 6), counted(call("a", opAgain, 2, 6), 1),
		call("b", opLock, 3, 4), call("b", opUnlock, 4, 5), call("a", opUnlock, 7, 8)}, nil},
}

func nobodyTold(e *Environment, v *Verdict) []Finding {
	s := conditionSpec(calmSpec)().of(conditionKind)
	s.silent = true
	return controlRound(e, v, s, 7*time.Second)
}
