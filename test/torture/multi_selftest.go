// Copyright (c) 2026, lockredis contributors

package main

// Negative controls of locks of several keys, and histories that are right

// together is a call for two keys.
func together(c Call) []Call {
	other := c
	c.Multi, other.Multi = 1, 1
	other.Key = "l"
	return []Call{c, other}
}

func alsoOf(key string, c Call) Call { c.Key = key; return c }

func doctoredMulti(multi []Call, more ...Call) func(*Environment, *Verdict) []Finding {
	return doctored(append(multi, more...)...)
}

var multiControls = []control{
	{"several keys while somebody has one of them", "exclusion", true, doctoredMulti(
		together(call("a", opLock, 2, 3)), alsoOf("l", call("b", opLock, 0, 1)),
		alsoOf("l", call("b", opUnlock, 4, 5)))},
	{"a failed call for several keys that adds to one of them", "exclusion", true, doctoredMulti(
		together(answer(call("a", opLock, 2, 3), resultBusy)), call("a", opLock, 0, 1),
		alsoOf("l", call("b", opLock, 0, 1)), counted(call("a", opCount, 4, 5), 2))},
	{"who sleeps while all of several keys are free", "wake-ups", true, doctoredMulti(
		together(waiting(call("a", opLock, 2, 20))), call("b", opLock, 0, 1),
		call("b", opUnlock, 3, 4))},
	{"busy though nobody has any of several keys", "busy", true, doctoredMulti(
		together(answer(call("a", opLock, 20, 21), resultBusy)), call("b", opLock, 0, 1),
		call("b", opUnlock, 3, 4))},
}

var multiRight = []rightHistory{
	{"several keys, one after the other", append(
		together(waiting(call("a", opLock, 0, 30))), alsoOf("l", call("b", opLock, 0, 1)),
		waiting(call("c", opLock, 2, 32)), alsoOf("l", call("b", opUnlock, 28, 29)),
		call("a", opUnlock, 30, 31), alsoOf("l", call("a", opUnlock, 30, 31)),
		call("c", opUnlock, 33, 34)), nil},
	{"one of several keys is busy", append(
		together(answer(call("a", opLock, 20, 21), resultBusy)), alsoOf("l", call("b", opLock, 0, 1)),
		call("c", opLock, 23, 24), call("c", opUnlock, 25, 26)), nil},
}
