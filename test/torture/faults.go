// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"math/rand"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Fault is one way in which things go wrong.
type Fault struct {
	name string

	// What it may do even if it is short: take data or change the clock of Redis.
	// Then two clients may have a key, and only fencing can be relied on.
	breaks bool

	// A crash of a server: not often, because the locks of its sessions stay until
	// their leases end and everybody waits.
	crash bool

	// It befalls sessions only, so it may come at the same time as another one.
	sessions bool

	// It keeps nobody from answering or from being woken.
	mild bool

	possible func(*Environment) bool

	// Does it, for so long, and undoes it.  An error is one of the rig.
	do func(*Strike) error
}

// A Strike is one use of a fault.
type Strike struct {
	*Round
	rng    *rand.Rand
	length time.Duration
}

// rest sleeps for what the fault is to last.
func (s *Strike) rest() { time.Sleep(s.length) }

func (s *Strike) node() *Postgres {
	return s.env.nodes[s.rng.Intn(len(s.env.nodes))]
}

// link is a connection of one of the servers to Redis.
func (s *Strike) link() *Proxy {
	return s.env.links[s.rng.Intn(len(s.env.links))]
}

// victim is a backend, one that holds, waits or releases if there is any.
func (s *Strike) victim(phase int32) int {
	var found, others []int

	for _, session := range s.sessions {
		pid := int(atomic.LoadInt32(&session.pid))
		if pid == 0 {
			continue
		}
		if atomic.LoadInt32(&session.phase) == phase {
			found = append(found, pid)
		} else {
			others = append(others, pid)
		}
	}
	if len(found) == 0 {
		found = others
	}
	if len(found) == 0 {
		return 0
	}
	return found[s.rng.Intn(len(found))]
}

// catch waits for a moment until a session is in that phase: some are short.
func (s *Strike) catch(phase int32) int {
	for tries := 0; tries < 200; tries++ {
		first := s.rng.Intn(len(s.sessions))
		for i := range s.sessions {
			session := s.sessions[(first+i)%len(s.sessions)]
			pid := int(atomic.LoadInt32(&session.pid))
			if pid != 0 && atomic.LoadInt32(&session.phase) == phase {
				return pid
			}
		}
		time.Sleep(time.Millisecond)
	}
	return s.victim(phase)
}

var everyFault = append(append(append([]*Fault{}, redisFaults...), postgresFaults...),
	networkFaults...)

// A lane is a sequence of faults; two lanes of a round overlap.
type lane struct {
	r       *Round
	rng     *rand.Rand
	used    map[string]int
	crashed bool
	accepts func(*Fault) bool
}

// choose prefers what this round has not had yet.
func (l *lane) choose() *Fault {
	var eligible []*Fault

	for _, f := range everyFault {
		if l.r.spec.faults(f) && l.accepts(f) && !(f.crash && l.crashed) &&
			(f.possible == nil || f.possible(l.r.env)) {
			eligible = append(eligible, f)
		}
	}
	if len(eligible) == 0 {
		return nil
	}
	if l.rng.Intn(3) == 0 {
		eligible = worst(eligible)
	}
	l.rng.Shuffle(len(eligible), func(i, j int) {
		eligible[i], eligible[j] = eligible[j], eligible[i]
	})
	sort.SliceStable(eligible, func(i, j int) bool {
		return l.used[eligible[i].name] < l.used[eligible[j].name]
	})
	l.used[eligible[0].name]++
	return eligible[0]
}

// worst are those that take data or change the clock of Redis, if any may.
func worst(faults []*Fault) []*Fault {
	var breaking []*Fault

	for _, f := range faults {
		if f.breaks {
			breaking = append(breaking, f)
		}
	}
	if len(breaking) == 0 {
		return faults
	}
	return breaking
}

// run does one fault after the other until the round is over.
func (l *lane) run() error {
	for {
		time.Sleep(l.r.spec.gap + time.Duration(l.rng.Int63n(int64(l.r.spec.gap)+1)))
		if l.r.over() {
			return nil
		}
		f := l.choose()
		if f == nil {
			continue
		}
		l.crashed = l.crashed || f.crash
		if err := l.r.strike(f, l.rng.Int63()); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
}

// injectFaults returns when the round is over.  What befalls sessions comes at the
// same time as what befalls Redis, the network and the watchdog; two of the latter
// in turn could last longer than a lease.
func (r *Round) injectFaults() error {
	if r.spec.faults == nil {
		for !r.over() {
			sleepMillis(100)
		}
		return nil
	}
	lanes := []*lane{
		{r: r, accepts: func(f *Fault) bool { return !f.sessions }},
		{r: r, accepts: func(f *Fault) bool { return f.sessions }},
	}
	ended := make(chan error, len(lanes))
	for _, l := range lanes {
		l.rng = rand.New(rand.NewSource(r.rng.Int63()))
		l.used = map[string]int{}
	}
	for _, l := range lanes {
		l := l
		go func() { ended <- l.run() }()
	}
	var failed error
	for range lanes {
		if err := <-ended; err != nil {
			failed = err
			atomic.StoreInt32(&r.ended, 1)
		}
	}
	return failed
}

func (r *Round) strike(f *Fault, seed int64) error {
	rng := rand.New(rand.NewSource(seed))
	length := 100*time.Millisecond + time.Duration(rng.Int63n(int64(r.spec.lease)/6))
	if r.spec.losses {
		length = r.spec.lease/2 + time.Duration(rng.Int63n(int64(r.spec.lease)*2))
	}
	w := r.hist.beginFault(f.name, f.mild)
	defer r.hist.endFault(w)
	return f.do(&Strike{r, rng, length})
}

// crashes: whether a server may have crashed without its sessions' notice.
func (r *Round) crashes() bool {
	for _, f := range everyFault {
		if r.spec.faults != nil && f.crash && r.spec.faults(f) {
			return true
		}
	}
	return false
}

// ---- faults of Redis ----

var redisFaults = []*Fault{
	{name: "Redis stopped", do: func(s *Strike) error {
		s.env.redis.proc.signal(syscall.SIGSTOP)
		s.rest()
		s.env.redis.proc.signal(syscall.SIGCONT)
		return nil
	}},
	{name: "Redis killed, started again with its data", do: func(s *Strike) error {
		return s.restartRedis(false)
	}},
	{name: "Redis killed, started again empty", breaks: true, do: func(s *Strike) error {
		return s.restartRedis(true)
	}},
	{name: "FLUSHALL", breaks: true, do: func(s *Strike) error {
		_, err := s.env.redis.cmd("FLUSHALL")
		return err
	}},
	{name: "lock deleted", breaks: true, do: func(s *Strike) error {
		for i := 0; i < 5; i++ {
			if _, err := s.env.redis.cmd("DEL", s.keys[s.rng.Intn(len(s.keys))]); err != nil {
				return err
			}
			time.Sleep(s.length / 5)
		}
		return nil
	}},
	{name: "DEBUG SLEEP", do: func(s *Strike) error {
		_, err := s.env.redis.cmd("DEBUG", "SLEEP", s.length.Seconds())
		return err
	}},
	{name: "CLIENT PAUSE", do: func(s *Strike) error {
		mode := []string{"ALL", "WRITE"}[s.rng.Intn(2)]
		_, err := s.env.redis.cmd("CLIENT", "PAUSE", s.length.Milliseconds(), mode)
		s.rest()
		return err
	}},
	{name: "CLIENT KILL", do: func(s *Strike) error {
		for i := 0; i < 10; i++ {
			ids, err := s.env.redis.clients()
			if err != nil {
				return err
			}
			if len(ids) > 0 {
				s.env.redis.cmd("CLIENT", "KILL", "ID", ids[s.rng.Intn(len(ids))])
			}
			time.Sleep(s.length / 10)
		}
		return nil
	}},
	{name: "SCRIPT FLUSH", mild: true, do: func(s *Strike) error {
		for i := 0; i < 10; i++ {
			if _, err := s.env.redis.cmd("SCRIPT", "FLUSH"); err != nil {
				return err
			}
			time.Sleep(s.length / 10)
		}
		return nil
	}},
	{name: "OOM", do: func(s *Strike) error {
		if _, err := s.env.redis.cmd("CONFIG", "SET", "maxmemory", 1); err != nil {
			return err
		}
		s.rest()
		_, err := s.env.redis.cmd("CONFIG", "SET", "maxmemory", 0)
		return err
	}},
	{name: "READONLY", do: func(s *Strike) error {
		// Of a master that does not exist, so nothing is copied from there.
		if _, err := s.env.redis.cmd("REPLICAOF", "127.0.0.1", 1); err != nil {
			return err
		}
		s.rest()
		_, err := s.env.redis.cmd("REPLICAOF", "NO", "ONE")
		return err
	}},
	{name: "clock of Redis jumps", breaks: true, do: func(s *Strike) error {
		jump := time.Duration(s.rng.Int63n(int64(4*s.spec.lease))) - 2*s.spec.lease
		s.env.redis.clock.shift(jump)
		s.rest()
		s.env.redis.clock.shift(0)
		return nil
	}},
}

func (s *Strike) restartRedis(empty bool) error {
	s.env.redis.crash()
	if empty {
		if err := s.env.redis.forget(); err != nil {
			return err
		}
	}
	s.rest()
	return s.env.redis.start()
}

// ---- faults of PostgreSQL ----

var postgresFaults = []*Fault{
	{name: "holder stopped", sessions: true, mild: true, do: func(s *Strike) error { return s.stop(phaseHolding) }},
	{name: "waiter stopped", sessions: true, do: func(s *Strike) error { return s.stop(phaseAcquiring) }},
	{name: "releaser stopped", sessions: true, do: func(s *Strike) error { return s.stop(phaseReleasing) }},
	{name: "watchdog stopped", do: func(s *Strike) error {
		node := s.node()
		node.mu.Lock()
		defer node.mu.Unlock()
		pid := node.watchdog()
		signalBackend(pid, syscall.SIGSTOP)
		s.rest()
		signalBackend(pid, syscall.SIGCONT)
		return nil
	}},
	{name: "server stopped", do: func(s *Strike) error {
		node := s.node()
		node.mu.Lock()
		defer node.mu.Unlock()
		children := node.children()
		for pid := range children {
			signalBackend(pid, syscall.SIGSTOP)
		}
		s.rest()
		for pid := range children {
			signalBackend(pid, syscall.SIGCONT)
		}
		return nil
	}},
	{name: "watchdog terminated", do: func(s *Strike) error {
		node := s.node()
		node.mu.Lock()
		defer node.mu.Unlock()
		signalBackend(node.watchdog(), syscall.SIGTERM)
		return nil
	}},
	{name: "watchdog killed", crash: true, do: func(s *Strike) error {
		node := s.node()
		return s.crashed(node, func() { signalBackend(node.watchdog(), syscall.SIGKILL) })
	}},
	{name: "holder killed", sessions: true, crash: true, do: func(s *Strike) error { return s.kill(phaseHolding) }},
	{name: "waiter killed", sessions: true, crash: true, do: func(s *Strike) error { return s.kill(phaseAcquiring) }},
	{name: "releaser killed", sessions: true, crash: true, do: func(s *Strike) error { return s.kill(phaseReleasing) }},
	{name: "server killed", crash: true, do: func(s *Strike) error {
		node := s.node()
		node.mu.Lock()
		defer node.mu.Unlock()
		node.killAll()
		time.Sleep(s.length / 4)
		return node.start()
	}},
	{name: "server restarted", crash: true, do: func(s *Strike) error {
		node := s.node()
		node.mu.Lock()
		defer node.mu.Unlock()
		node.proc.signal([]syscall.Signal{syscall.SIGINT, syscall.SIGQUIT}[s.rng.Intn(2)])
		if !node.proc.wait(20 * time.Second) {
			return fmt.Errorf("%s does not stop", node.name)
		}
		return node.start()
	}},
	{name: "cancels", sessions: true, mild: true, do: func(s *Strike) error {
		s.storm(3, 25, func(pid int) { signalBackend(pid, syscall.SIGINT) })
		return nil
	}},
	{name: "terminates", sessions: true, mild: true, do: func(s *Strike) error {
		s.storm(50, 200, func(pid int) { signalBackend(pid, syscall.SIGTERM) })
		return nil
	}},
	{name: "waiters stopped, then canceled", sessions: true, mild: true, do: func(s *Strike) error {
		s.interruptStopped()
		return nil
	}},
	{name: "statement_timeout", sessions: true, mild: true, do: func(s *Strike) error {
		atomic.StoreInt32(&s.hurry, 1)
		s.rest()
		atomic.StoreInt32(&s.hurry, 0)
		return nil
	}},
	{name: "clock of PostgreSQL jumps", sessions: true, mild: true, do: func(s *Strike) error {
		node := s.node()
		jump := time.Duration(s.rng.Int63n(int64(2*time.Hour))) - time.Hour
		node.clock.shift(jump)
		s.rest()
		node.clock.shift(0)
		return nil
	}},
	{name: "max_handoffs and timeouts reloaded", sessions: true, mild: true, do: func(s *Strike) error {
		node := s.node()
		node.mu.Lock()
		defer node.mu.Unlock()
		return node.set(map[string]string{
			"lockredis.max_handoffs": fmt.Sprint([]int{0, 1, 4, 32}[s.rng.Intn(4)])})
	}},
}

func (s *Strike) stop(phase int32) error {
	pid := s.catch(phase)
	signalBackend(pid, syscall.SIGSTOP)
	s.rest()
	signalBackend(pid, syscall.SIGCONT)
	return nil
}

func (s *Strike) kill(phase int32) error {
	pid := s.catch(phase)
	for _, node := range s.env.nodes {
		node.mu.Lock()
		_, its := node.children()[pid]
		node.mu.Unlock()
		if its {
			return s.crashed(node, func() { signalBackend(pid, syscall.SIGKILL) })
		}
	}
	return nil
}

// crashed waits until the server has restarted its processes.
func (s *Strike) crashed(node *Postgres, kill func()) error {
	node.mu.Lock()
	defer node.mu.Unlock()
	kill()
	sleepMillis(100)
	return node.waitUntilUp(30 * time.Second)
}

// storm hits some backend again and again, at intervals of so many ms.
func (s *Strike) storm(least, most int, hit func(pid int)) {
	for end := time.Now().Add(s.length); time.Now().Before(end); {
		hit(s.victim(int32(1 + s.rng.Intn(phaseCount-1))))
		sleepMillis(least + s.rng.Intn(most-least))
	}
}

// interruptStopped stops waiters just long enough for the lock to be handed to
// them, and has each find an interrupt when it runs again.
func (s *Strike) interruptStopped() {
	for end := time.Now().Add(s.length); time.Now().Before(end); {
		sig := syscall.SIGINT
		if s.rng.Intn(10) == 0 {
			sig = syscall.SIGTERM
		}
		pid := s.catch(phaseAcquiring)
		signalBackend(pid, syscall.SIGSTOP)
		signalBackend(pid, sig)
		sleepMillis(20 + s.rng.Intn(180))
		signalBackend(pid, syscall.SIGCONT)
	}
}

// ---- faults of the network ----

var networkFaults = append([]*Fault{
	{name: "link cut", possible: hasNetwork, do: func(s *Strike) error {
		return s.cutLink(true, true)
	}},
	{name: "link cut towards Redis", possible: hasNetwork, do: func(s *Strike) error {
		return s.cutLink(true, false)
	}},
	{name: "link cut towards PostgreSQL", possible: hasNetwork, do: func(s *Strike) error {
		return s.cutLink(false, true)
	}},
}, proxyFaults(delayBoth, stallBoth, stallRequests, stallReplies, dropRequests, dropReplies,
	cutReplies, resetRequests, truncateBoth, refuseAll)...)

func hasNetwork(e *Environment) bool { return e.network != nil }

func (s *Strike) cutLink(outgoing, incoming bool) error {
	if err := s.env.network.cut(outgoing, incoming); err != nil {
		return err
	}
	s.rest()
	return s.env.network.heal()
}

func proxyFaults(kinds ...string) []*Fault {
	var faults []*Fault

	for _, kind := range kinds {
		kind := kind
		faults = append(faults, &Fault{name: "proxy: " + kind, do: func(s *Strike) error {
			var wait sync.WaitGroup
			links := []*Proxy{s.link()}
			if s.rng.Intn(3) == 0 {
				links = append(append([]*Proxy{}, s.env.links...), s.env.bare)
			}
			prob := []float64{1, 0.3, 0.1}[s.rng.Intn(3)]
			for _, link := range links {
				link := link
				wait.Add(1)
				go func() {
					defer wait.Done()
					link.begin(kind, prob, s.length/4)
					s.rest()
					link.end(kind)
				}()
			}
			wait.Wait()
			return nil
		}})
	}
	return faults
}
