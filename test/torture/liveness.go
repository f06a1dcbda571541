// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"sort"
	"strings"
	"time"
)

// Bounds of the checks of progress.
type Bounds struct {
	budget time.Duration // connect_timeout and command_timeout
	lease  time.Duration // after that the store forgets a dead holder

	// After a fault what was given back may be there again: for so long
	settles time.Duration
}

// What a loaded machine may add.
const slack = 3 * time.Second

// For how long at most a key may be free while somebody waits for it.  Shorter
// than what ends every sleep by accident, e.g. an alarm that a backend has left.
const wakeBound = 4 * time.Second

// After a fault: connections are made anew, a watchdog or server starts, orphans
// are given back.
const recovery = 3 * time.Second

// After a fault Redisson connects and subscribes anew after pauses that grow to so much
// (Config.reconnectionDelay); until then it is not told of a release.
const redissonReconnects = 10 * time.Second

// After a call that has waited and was not granted: what it has announced in the
// store is taken back by the watchdog.
const givenUp = 2 * time.Second

// A span of time.
type span struct {
	from, to int64
}

// merge returns spans in order, those that touch as one.
func merge(spans []span) []span {
	var merged []span

	sort.Slice(spans, func(i, j int) bool { return spans[i].from < spans[j].from })
	for _, s := range spans {
		if n := len(merged); n > 0 && s.from <= merged[n-1].to {
			if s.to > merged[n-1].to {
				merged[n-1].to = s.to
			}
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// longestGap is the longest part of the span that is not covered.
func longestGap(s span, merged []span) span {
	best := span{s.from, s.from}
	at := s.from

	for _, m := range merged {
		if m.to <= at {
			continue
		}
		if m.from >= s.to {
			break
		}
		if m.from-at > best.to-best.from {
			best = span{at, m.from}
		}
		at = m.to
	}
	if s.to-at > best.to-best.from {
		best = span{at, s.to}
	}
	return best
}

func overlap(s span, merged []span) int64 {
	var sum int64

	for _, m := range merged {
		from, to := m.from, m.to
		if from < s.from {
			from = s.from
		}
		if to > s.to {
			to = s.to
		}
		if to > from {
			sum += to - from
		}
	}
	return sum
}

// faultSpans are the times of faults and of so much after each; with mild ones
// or without.
func faultSpans(faults []Window, after time.Duration, mild bool) []span {
	var spans []span

	for _, w := range faults {
		if w.Mild && !mild {
			continue
		}
		end := w.End
		if end == 0 {
			end = 1 << 62
		}
		spans = append(spans, span{w.Start, end + int64(after)})
	}
	return merge(spans)
}

// checkEnds: each call ends within its limit, one budget, and the time for
// which somebody was stopped meanwhile.  Calls without a limit end when the
// lock is free: that is for checkWakeups and, at the end of a round, for the
// round itself.
func checkEnds(calls []Call, faults []Window, b Bounds) []Finding {
	var found []Finding
	stopped := faultSpans(faults, 0, true)

	for i := range calls {
		c := &calls[i]
		if c.End == 0 {
			found = append(found, Finding{"ends", fmt.Sprintf(
				"%s %s of %s has not ended", c.Client, c.Op, c.Key)})
			continue
		}
		if c.Limit < 0 || c.Op == opDrop || c.Op == opJob {
			continue
		}
		took := c.End - c.Start
		allowed := c.Limit + int64(b.budget) + int64(slack) +
			overlap(span{c.Start, c.End}, stopped)
		if took > allowed {
			found = append(found, Finding{"ends", fmt.Sprintf(
				"%s %s of %s (%s) took %.1f s, limit %.1f s, allowed %.1f s", c.Client, c.Op,
				c.Key, c.Result, seconds(took), seconds(c.Limit), seconds(allowed))})
		}
	}
	return found
}

// occupied are the times when somebody kept others from having the key in that mode,
// or may have done so.  early: counted from when an acquire began, not from when it was
// granted.
func occupied(calls []Call, b Bounds, mode string, early bool) []span {
	if mode == modePermit {
		return allHad(calls, b, early)
	}
	var spans []span
	type hold struct {
		from  int64
		depth int
	}
	open := map[slot]*hold{} // by client and mode

	for i := range calls {
		c := &calls[i]
		who := slot{c.Client, c.Mode}
		end := c.End
		if end == 0 {
			end = 1 << 62
		}
		lingering := end
		if c.Lingers {
			lingering += int64(b.lease) + int64(recovery)
		}
		if mode == modeRead {
			if c.Mode == modeRead {
				continue
			}
			// Readers let a writer go first who has come before.
			if c.Op == opLock && c.Queues {
				spans = append(spans, span{c.Start, lingering + int64(givenUp)})
			}
		}
		if c.Multi != 0 && c.Op == opLock {
			// May have this key while it waits for the others.
			spans = append(spans, span{c.Start, end})
		}
		h := open[who]
		switch c.Op {
		case opLock:
			switch c.Result {
			case resultOK:
				from := end
				if early {
					from = c.Start
				}
				if h == nil {
					h = &hold{from: from}
					open[who] = h
				}
				h.depth++
			case resultBusy:
				// In the queue, and so in the way of a try.
				if early || c.Lingers {
					spans = append(spans, span{c.Start, lingering})
				}
			default:
				// Taken perhaps, and then given back by the watchdog.
				if !c.Lingers {
					lingering += int64(recovery)
				}
				from := c.Start
				if c.Queues && !early && !c.Lingers {
					// While it only waited it was not in anybody's way.
					from = end
				}
				spans = append(spans, span{from, lingering})
			}
		case opAgain:
			from := end
			if early {
				from = c.Start
			}
			open[who] = &hold{from, c.Count}
		case opUnlock, opDrop:
			if h == nil {
				continue
			}
			if c.Sleeps {
				// Given back at the beginning of a wait.
				lingering = c.Start + int64(recovery)
			}
			h.depth--
			if h.depth <= 0 || c.Op == opDrop {
				spans = append(spans, span{h.from, lingering})
				delete(open, who)
			}
		case opJob:
			// Perhaps for hold_at_least after its end
			spans = append(spans, span{c.Start, lingering + int64(recovery)})
		}
	}
	for _, h := range open {
		spans = append(spans, span{h.from, 1 << 62})
	}
	return spans
}

// waits: has it waited, and relied on being woken?  Not Redisson, where it is at a loss
// itself: it repeats what was not answered for longer than anybody waits for a lock.
func (c *Call) waits() bool {
	return c.Queues && c.End != 0 && c.Result != resultException
}

// recovers is for how long after a fault its client may be deaf.
func (c *Call) recovers(b Bounds) time.Duration {
	if strings.HasPrefix(c.Client, redissonPrefix) {
		return recovery + b.settles + redissonReconnects
	}
	return recovery + b.settles
}

// checkWakeups: nobody waits for longer than the bound while the key is free
// and nothing is broken.  A release that woke nobody, or a waiter who slept
// through it, would show here, because the lease is longer than the bound.
func checkWakeups(calls []Call, faults []Window, b Bounds) []Finding {
	var found []Finding

	keys := byKey(calls)
	for _, key := range sortedKeys(keys) {
		taken := map[string][]span{}
		for _, mode := range []string{modeAlone, modeRead, modePermit} {
			taken[mode] = merge(occupied(keys[key], b, mode, false))
		}
		taken[modeWrite] = taken[modeAlone]
		for i := range keys[key] {
			c := &keys[key][i]
			if c.Op != opLock || !c.waits() || c.Multi != 0 {
				continue
			}
			broken := faultSpans(faults, c.recovers(b), false)
			free := longestGap(span{c.Start, c.End}, merge(append(broken, taken[c.Mode]...)))
			if free.to-free.from > int64(wakeBound) {
				found = append(found, Finding{"wake-ups", fmt.Sprintf(
					"%s waited for %s from %.3f to %.3f s (%s), though it was free from %.3f to %.3f s",
					c.Client, key, seconds(c.Start), seconds(c.End), c.Result,
					seconds(free.from), seconds(free.to))})
			}
		}
	}
	return found
}

// checkBusy: "busy" is said only if somebody else has the key, may have it, or
// is in the queue.
func checkBusy(calls []Call, faults []Window, b Bounds) []Finding {
	var found []Finding

	broken := faultSpans(faults, b.lease+recovery, false)
	keys := byKey(calls)
	for _, key := range sortedKeys(keys) {
		for i := range keys[key] {
			c := &keys[key][i]
			if c.Op != opLock || c.Result != resultBusy || c.Multi != 0 || c.End == 0 {
				continue
			}
			at := span{c.Start, c.End}
			if overlap(at, broken) > 0 {
				continue
			}
			if leftByItself(keys[key][:i], c, b) {
				continue
			}
			others := withoutClient(keys[key], c.Client)
			if c.Mode == modePermit {
				// Those that it has count, too.
				others = append(append([]Call{}, keys[key][:i]...), keys[key][i+1:]...)
			}
			if overlap(at, merge(occupied(others, b, c.Mode, true))) == 0 {
				found = append(found, Finding{"busy", fmt.Sprintf(
					"%s was told at %.6f s that %s is busy, though nobody had it",
					c.Client, seconds(c.Start), key)})
			}
		}
	}
	return found
}

// leftByItself: what it had before may be there until its lease ends, or for as long as its job
// asked for.
func leftByItself(before []Call, c *Call, b Bounds) bool {
	for i := range before {
		own := &before[i]
		if own.Client != c.Client {
			continue
		}
		if own.Lingers && own.End+int64(b.lease+recovery) > c.Start ||
			own.Op == opJob && own.End+own.Limit+int64(recovery) > c.Start {
			return true
		}
	}
	return false
}

// Times are rounded.
const heldSlack = 10 * time.Millisecond

// checkHeld: nobody has a key while a job has asked to hold it at least.  The job began
// after its call did.
func checkHeld(calls []Call) []Finding {
	var found []Finding

	for i := range calls {
		job := &calls[i]
		if job.Op != opJob || job.Result != resultOK || job.Limit == 0 {
			continue
		}
		for j := range calls {
			c := &calls[j]
			if c.Op == opLock && c.Result == resultOK && c.Key == job.Key &&
				c.Start > job.End && c.End < job.Start+job.Limit-int64(heldSlack) {
				found = append(found, Finding{"held at least", fmt.Sprintf(
					"%s had %s at %.3f s, though a job of %s from %.3f to %.3f s holds it for %.3f s",
					c.Client, c.Key, seconds(c.End), job.Client, seconds(job.Start),
					seconds(job.End), seconds(job.Limit))})
			}
		}
	}
	return found
}
