// Copyright (c) 2026, lockredis contributors

package main

import "time"

// Negative controls of latches, and what is right

func downs(n int, start int64) []Call {
	var calls []Call

	for i := 0; i < n; i++ {
		calls = append(calls, call("a", opDown, start+int64(i), start+int64(i)+1))
	}
	return calls
}

func judgeLatch(awaits Call, counts []Call) []Finding {
	return checkLatches(append(counts, awaits), []*Latch{{key: "k"}}, nil,
		Bounds{budget: 2 * time.Second, lease: longLease})
}

var latchControls = []control{
	{"who goes on before all have counted", "latches", true,
		func(*Environment, *Verdict) []Finding {
			return judgeLatch(call("b", opAwait, 0, 3), downs(latchCount, 1))
		}},
	{"who waits on when all have counted", "wake-ups", true,
		func(*Environment, *Verdict) []Finding {
			return judgeLatch(call("b", opAwait, 0, 20), downs(latchCount, 1))
		}},
}

func checkRightLatches() []Finding {
	found := judgeLatch(call("b", opAwait, 0, latchCount+1), downs(latchCount, 1))
	return append(found, judgeLatch(answer(call("b", opAwait, 0, 20), resultBusy),
		downs(latchCount-1, 1))...)
}
