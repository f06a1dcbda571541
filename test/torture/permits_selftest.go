// Copyright (c) 2026, lockredis contributors

package main

// Negative controls of permits, and a history that is right

func permit(c Call) Call { return in(modePermit, c) }

var threeOfThem = []Call{permit(call("a", opLock, 0, 1)), permit(call("b", opLock, 0, 1)),
	permit(call("c", opLock, 0, 1))}

func withThree(more ...Call) []Call { return append(append([]Call{}, threeOfThem...), more...) }

var permitControls = []control{
	{"a permit more than there are", "exclusion", true, doctored(withThree(
		permit(call("d", opLock, 2, 3)), permit(call("a", opUnlock, 4, 5)))...)},
	{"a permit given back twice", "exclusion", true, doctored(withThree(
		permit(call("a", opUnlock, 2, 3)), permit(call("a", opUnlock, 4, 5)))...)},
	{"who sleeps while a permit is free", "wake-ups", true, doctored(withThree(
		waiting(permit(call("d", opLock, 2, 20))), permit(call("a", opUnlock, 3, 4)))...)},
	{"busy though a permit is free", "busy", true, doctored(withThree(
		permit(call("a", opUnlock, 3, 4)), answer(permit(call("d", opLock, 40, 41)), resultBusy),
		permit(call("b", opUnlock, 50, 51)), permit(call("c", opUnlock, 50, 51)))...)},
}

var permitRight = []rightHistory{
	{"three permits, and who waits for one", withThree(
		waiting(permit(call("d", opLock, 2, 20))), permit(call("a", opUnlock, 18, 19)),
		counted(permit(call("d", opCount, 21, 22)), 1), permit(call("d", opUnlock, 23, 24)),
		answer(permit(call("b", opHeld, 25, 26)), "true")), nil},
}
