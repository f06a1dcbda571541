// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"math/rand"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Spec says what is done in a round, and what must hold.
type Spec struct {
	name      string
	kind      *Kind // nil: lockKind
	lease     time.Duration
	budget    time.Duration // connect_timeout and command_timeout together
	guard     string        // lockredis.commit_guard
	onLost    []string
	handoffs  []int // lockredis.max_handoffs, one of
	replicas  int   // lockredis.min_replicas
	sessions  int   // on each server
	bare      int
	bareWrite func(*Session, string, int64) // with its lock and token; nil: nothing
	redisson  int
	redsync   int
	keys      int
	think     time.Duration // at most
	hold      time.Duration // at most
	work      func(*Session)
	mishaps   float64                // how often workGuarded
	mishap    func(*Session, string) // has this before it commits
	deadlocks bool                   // may occur
	losses    bool                   // faults last longer than the lease
	forgets   bool                   // tokens may be lower than those before
	valid     bool                   // a lost lock is nobody else's while it is said to be held
	settles   time.Duration          // after a fault, until a key that is free is free
	faults    func(*Fault) bool
	crashes   bool          // again and again
	gap       time.Duration // at least, between two faults

	lockTimeouts []time.Duration

	silent bool // for a negative control: changes are not told

	// For negative controls: started beside the others, and the only fault
	intruder func(*Round)
	only     *Fault
}

// A Round is some seconds of work and faults.
type Round struct {
	env   *Environment
	spec  Spec
	name  string
	keys  []string
	hist  *History
	rng   *rand.Rand
	until time.Time
	hurry int32 // sessions set a short statement_timeout
	ended int32

	semaphores []*Semaphore // the last ones, as many as keys, are in use
	latches    []*Latch     // in use
	everyLatch []*Latch

	strays  int32              // permits that nobody may know the id of
	waiting int32              // sessions that wait for a condition
	buffers map[string]*Buffer // what they wait for

	writerSeed int64

	sessions []*Session

	mu           sync.Mutex
	acknowledged map[string]map[string]bool // commits, by node
	found        []Finding
	losses       []string
	commits      int
	stalled      int64
}

func newRound(e *Environment, spec Spec, name string, seed int64) *Round {
	if spec.kind == nil {
		spec = spec.of(lockKind)
	}
	if e != nil && (e.masters != nil || e.hasRows()) {
		// The client without a library goes to one Redis.
		spec.bare = 0
	}
	r := &Round{env: e, spec: spec, name: name, hist: &History{},

		rng: rand.New(rand.NewSource(seed)), acknowledged: map[string]map[string]bool{},
		buffers: map[string]*Buffer{}}

	for i := 0; i < spec.keys; i++ {
		r.keys = append(r.keys, fmt.Sprintf("%s-%d", name, i))
	}
	for _, node := range e.nodes {
		r.acknowledged[e.tablesOf(node)] = map[string]bool{}
	}
	return r
}

// Writers are made when they are needed, by many clients; what they do at random
// is only to think.
func (r *Round) seedOfWriter() int64 { return atomic.AddInt64(&r.writerSeed, 1) }

func (r *Round) over() bool {
	return atomic.LoadInt32(&r.ended) != 0 || time.Now().After(r.until)
}

func (r *Round) find(check, format string, args ...interface{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.found) < 20 {
		r.found = append(r.found, Finding{check, fmt.Sprintf(format, args...)})
	}
}

// lost: a lock was lost though no fault lasted so long.
func (r *Round) lost(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses = append(r.losses, what)
}

func (r *Round) committed(node *Postgres, tag string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if acknowledged := r.acknowledged[r.env.tablesOf(node)]; acknowledged != nil {
		acknowledged[tag] = true
	}
}

func (r *Round) prepare() error {
	if r.env.sentinels != nil {
		if err := r.env.sentinels.settle(); err != nil {
			return err
		}
	}
	if r.env.masters != nil {
		if err := r.env.masters.settle(r.env.nodes); err != nil {
			return err
		}
	}
	if r.env.inTable() {
		if err := r.env.settleTable(); err != nil {
			return err
		}
	}
	if r.env.inFallback() {
		if err := r.env.settleFallback(); err != nil {
			return err
		}
	}
	handoffs := r.spec.handoffs[r.rng.Intn(len(r.spec.handoffs))]

	for _, node := range r.env.nodes {
		err := node.set(map[string]string{
			"lockredis.lease":           millis(r.spec.lease),
			"lockredis.connect_timeout": millis(r.spec.budget / 2),
			"lockredis.command_timeout": millis(r.spec.budget / 2),
			"lockredis.max_handoffs":    fmt.Sprint(handoffs),
			"lockredis.min_replicas":    fmt.Sprint(r.spec.replicas),
		})
		if err != nil {
			return err
		}
		for _, key := range r.keys {
			if atomic.LoadInt32(&node.standby) != standbyNot {
				break
			}
			if _, err := node.query("INSERT INTO guarded VALUES ('" + key + "', 0)"); err != nil {
				return err
			}
		}
	}
	if r.spec.kind.begin != nil {
		return r.spec.kind.begin(r)
	}
	return nil
}

// run does the work for so long, ends it, and judges.
func (r *Round) run(length time.Duration) error {
	if err := r.prepare(); err != nil {
		return err
	}
	e := r.env
	var work sync.WaitGroup
	start := func(f func()) {
		work.Add(1)
		go func() {
			defer work.Done()
			f()
		}()
	}

	var redissonClient string
	if e.redisson != nil && r.spec.redisson > 0 {
		var err error
		if redissonClient, err = e.connectRedisson(r.spec.lease); err != nil {
			return fmt.Errorf("Redisson: %w", err)
		}
	}
	stall := startStallMeter()
	r.until = time.Now().Add(length)
	for _, node := range e.nodes {
		for i := 0; i < r.spec.sessions; i++ {
			s := newSession(r, fmt.Sprintf("%s.%d", node.name, i+1), node, r.rng.Int63())
			r.sessions = append(r.sessions, s)
			start(func() { s.run(r.spec.work) })
		}
	}
	for i := 0; i < r.spec.bare; i++ {
		b, err := newBare(r, fmt.Sprintf("bare.%d", i+1), e.forBare,
			e.options.lua, r.rng.Int63())
		if err != nil {
			return err
		}
		start(b.run)
	}
	for i := 0; i < r.spec.redisson; i++ {
		t := &RedissonThread{name: fmt.Sprintf("%s%d", redissonPrefix, i+1),
			target: fmt.Sprintf("%s.%d", redissonClient, i+1), j: e.redisson, w: r,
			rng: rand.New(rand.NewSource(r.rng.Int63()))}
		if redissonClient != "" {
			start(t.run)
		}
	}
	for i := 0; i < r.spec.redsync && e.options.redsync != ""; i++ {
		c, err := newRedsync(r, fmt.Sprintf("redsync.%d", i+1), r.rng.Int63())
		if err != nil {
			return err
		}
		start(c.run)
	}
	if r.spec.kind.watch != nil {
		start(func() { r.spec.kind.watch(r) })
	}
	if r.spec.intruder != nil {
		start(func() { r.spec.intruder(r) })
	}

	err := r.injectFaults()
	atomic.StoreInt32(&r.ended, 1)
	if err != nil {
		return err
	}
	r.waitForEnd(&work)
	if redissonClient != "" {
		e.redisson.call(redissonLimit, redissonClient, "shutdown")
	}
	r.stalled = stall.end()
	r.judge()
	return nil
}

// After the last fault everybody gives back what he has, so everybody who waits
// gets it, at the latest when the lease of one who died has ended.
func (r *Round) waitForEnd(work *sync.WaitGroup) {
	done := make(chan struct{})

	go func() {
		work.Wait()
		close(done)
	}()
	limit := bareLease + r.spec.lease + r.spec.settles + r.spec.budget + 10*time.Second
	if r.spec.redisson > 0 {
		limit += redissonLimit
	}
	if r.spec.redisson > 0 && r.env.masters != nil {
		limit += redLimit
	}
	select {
	case <-done:
		return
	case <-time.After(limit):
	}
	calls, _ := r.hist.snapshot()
	for i := range calls {
		if calls[i].End == 0 {
			r.find("ends", "%s %s of %s has not ended %.0f s after everything else",
				calls[i].Client, calls[i].Op, calls[i].Key, limit.Seconds())
		}
	}
	for _, node := range r.env.nodes {
		rows, err := node.query("SELECT l FROM redis_locks l")
		r.find("ends", "redis_locks of %s then: %v %v", node.name, rows, err)
		node.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity " +
			"WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
	}
	select {
	case <-done:
	case <-time.After(hangLimit):
		r.find("ends", "the clients of this round do not end")
	}
}

// A machine that stood still for so long may have lost a lease by that.
func (r *Round) tolerated() int64 { return int64(r.spec.lease) / 4 }

func (r *Round) judge() {
	e := r.env
	calls, faults := r.hist.snapshot()
	bounds := Bounds{budget: r.spec.budget, lease: r.spec.lease, settles: r.spec.settles}

	// Only the locks of a dead server stay until their leases end.
	patience := 6*time.Second + r.spec.settles
	if r.crashes() || r.spec.losses {
		patience += r.spec.lease + 2*time.Second
	}
	if r.crashes() && r.spec.kind.sweep != nil {
		r.spec.kind.sweep(r)
	}
	if r.spec.kind.end != nil {
		r.spec.kind.end(r, patience)
	}
	found := e.checkLeftovers(patience)
	found = append(found, checkEnds(calls, faults, bounds)...)
	if r.spec.forgets {
		calls = withoutTokens(calls)
	}
	if !r.spec.losses || r.spec.valid {
		found = append(found, checkExclusion(calls, 20*time.Second,
			filepath.Join(e.options.dir, r.name))...)
	}
	if !r.spec.losses {
		found = append(found, checkHeld(calls)...)
		found = append(found, checkWakeups(calls, faults, bounds)...)
		found = append(found, checkBusy(calls, faults, bounds)...)
		found = append(found, checkMultis(calls, faults, bounds)...)
		found = append(found, checkConditions(calls, faults, r.buffers, bounds, r.crashes())...)
		found = append(found, checkLatches(calls, r.everyLatch, faults, bounds)...)
		found = append(found, checkOrder(calls, r.hist.looks())...)
		if r.stalled < r.tolerated() {
			for _, what := range r.losses {
				found = append(found, Finding{"losses", what})
			}
		}
	}
	for _, node := range e.nodes {
		more, commits := checkGuarded(node, r.keys, r.acknowledged[e.tablesOf(node)])
		found = append(found, more...)
		r.commits += commits
		for _, line := range node.badLog() {
			found = append(found, Finding{"server log", node.name + ": " + line})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = append(r.found, found...)
	if len(r.found) > 0 || e.options.keep {
		r.hist.save(filepath.Join(e.options.dir, r.name+".history"))
	}
}

// summary is a line about the round.
func (r *Round) summary() string {
	calls, faults := r.hist.snapshot()
	names := map[string]int{}
	granted := 0

	for _, w := range faults {
		names[w.Name]++
	}
	for i := range calls {
		if calls[i].Op == opLock && calls[i].Result == resultOK {
			granted++
		}
	}
	text := fmt.Sprintf("%s %s: %d calls, %d granted", r.name, r.spec.name, len(calls), granted)
	if r.commits > 0 {
		text += fmt.Sprintf(", %d guarded commits", r.commits)
	}
	if len(r.losses) > 0 && !r.spec.losses {
		text += fmt.Sprintf(", %d losses", len(r.losses))
	}
	if r.stalled > r.tolerated() {
		text += fmt.Sprintf(", the machine stood still for %.1f s", seconds(r.stalled))
	}
	var done []string
	for _, part := range strings.Split(counts(names), ", ") {
		if part != "" {
			done = append(done, part)
		}
	}
	if len(done) == 0 {
		return text + "; no faults"
	}
	return text + "; " + strings.Join(done, ", ")
}
