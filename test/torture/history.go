// Copyright (c) 2026, lockredis contributors

package main

import (
	"encoding/json"
	"os"
	"sort"
	"strings"
	"sync"
)

// What a client can do with a key, in the mode of the call.
const (
	opLock   = "lock"   // take it, or take it again: granted if the result is ok
	opUnlock = "unlock" // give one hold back
	opDrop   = "drop"   // all holds end, whatever the way
	opHeld   = "held"   // redis_is_held: the result is true or false
	opCount  = "count"  // redis_hold_count
	opWait   = "wait"   // for a condition: in the model it is a drop, and
	opAgain  = "again"  // that it is held as before
	opDown   = "down"   // count a latch down
	opAwait  = "await"  // wait until one is zero: ok, or busy if it is not
	opJob    = "job"    // redis_with_lock: had somewhere in between, and for Limit at least
)

// How it is taken: a key is locked in the first way, or in the next two, or it is one of permits.
const (
	modeAlone = ""
	modeRead  = "read"
	modeWrite = "write"

	modePermit = "permit" // one of so many
)

const (
	resultOK   = "ok"
	resultBusy = "busy"

	resultException = "exception" // of Redisson
)

// A Call is one line of a history (test/fault/history.md).
type Call struct {
	Client string `json:"client"`
	Op     string `json:"op"`
	Key    string `json:"key"`
	Mode   string `json:"mode,omitempty"`
	Start  int64  `json:"start_ns"`
	End    int64  `json:"end_ns"` // 0: has not ended
	Result string `json:"result"` // ok, busy, an SQLSTATE or the like

	Token int64 `json:"token,omitempty"` // fencing token that came with a lock
	Count int   `json:"count,omitempty"`

	// For how long at most the call was to wait for a holder; -1: for ever
	Limit int64 `json:"limit_ns,omitempty"`

	// Does it wait in a queue and rely on being woken?
	Queues bool `json:"queues,omitempty"`

	// A wait for a condition, and what it is in the model
	Sleeps    bool   `json:"sleeps,omitempty"`
	Condition string `json:"condition,omitempty"`

	// A fair lock that was not had before, and its owner in the store
	Fair  bool   `json:"fair,omitempty"`
	Owner string `json:"owner,omitempty"`

	// Of a call for several keys: its number, the same in all its lines
	Multi int64 `json:"multi,omitempty"`

	// It takes effect at some moment after its start, perhaps after its end.
	Late bool `json:"late,omitempty"`

	number int // of the client among those of the key: set by checkers

	// The client had no answer that tells that the lock is free now: it may
	// stay in the store until its lease ends.
	Lingers bool `json:"lingers,omitempty"`
}

// A Window is the time of one fault.
type Window struct {
	Name       string
	Start, End int64
	Mild       bool // no excuse for a waiter who is not woken
}

// A History is what happened in one round.
type History struct {
	mu     sync.Mutex
	calls  []*Call
	faults []*Window
	queues []Queue         // of fair locks, as they were seen
	lined  map[string]bool // was somebody seen in the queue of the key?
}

// begin records that a call has started; end, that it has ended.
func (h *History) begin(c *Call) *Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, c)
	c.Start = now()
	return c
}

func (h *History) end(c *Call, result string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.Result = result
	c.End = now()
}

// add records a call whose times are known.
func (h *History) add(c Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, &c)
}

// addQueue: a queue is of no interest as long as nobody stands there.
func (h *History) addQueue(q Queue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(q.Owners) == 0 && (len(h.queues) == 0 || !h.lined[q.Key]) {
		return
	}
	if h.lined == nil {
		h.lined = map[string]bool{}
	}
	h.lined[q.Key] = len(q.Owners) > 0
	h.queues = append(h.queues, q)
}

// looks are the queues that were seen so far.
func (h *History) looks() []Queue {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Queue{}, h.queues...)
}

func (h *History) beginFault(name string, mild bool) *Window {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := &Window{Name: name, Start: now(), Mild: mild}
	h.faults = append(h.faults, w)
	return w
}

func (h *History) endFault(w *Window) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.End = now()
}

// snapshot is a copy in the order of the starts; what has not ended is there
// too, with End 0.
func (h *History) snapshot() ([]Call, []Window) {
	h.mu.Lock()
	defer h.mu.Unlock()

	calls := make([]Call, len(h.calls))
	for i, c := range h.calls {
		calls[i] = *c
	}
	sort.SliceStable(calls, func(i, j int) bool {
		return calls[i].Start < calls[j].Start
	})
	faults := make([]Window, len(h.faults))
	for i, w := range h.faults {
		faults[i] = *w
	}
	return calls, faults
}

// unfinished is the number of calls that have not ended.
func (h *History) unfinished() int {
	h.mu.Lock()
	defer h.mu.Unlock()

	n := 0
	for _, c := range h.calls {
		if c.End == 0 {
			n++
		}
	}
	return n
}

func (h *History) save(path string) error {
	calls, faults := h.snapshot()

	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out := json.NewEncoder(f)
	for _, w := range faults {
		err = out.Encode(map[string]interface{}{"client": "fault",
			"op": w.Name, "start_ns": w.Start, "end_ns": w.End})
		if err != nil {
			break
		}
	}
	for i := range calls {
		if err != nil {
			break
		}
		err = out.Encode(&calls[i])
	}
	for _, q := range h.looks() {
		if err != nil {
			break
		}
		err = out.Encode(map[string]interface{}{"client": "observer", "op": "queue",
			"key": q.Key, "start_ns": q.From, "end_ns": q.To,
			"result": strings.Join(q.Owners, " ")})
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

func byKey(calls []Call) map[string][]Call {
	keys := map[string][]Call{}

	for _, c := range calls {
		keys[c.Key] = append(keys[c.Key], c)
	}
	return keys
}

func sortedKeys(m map[string][]Call) []string {
	var names []string

	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
