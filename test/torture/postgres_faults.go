// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
)

// Faults of PostgreSQL and its sessions
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
		node.terminate(node.watchdog())
		return nil
	}},
	{name: "watchdog killed", crash: true, do: func(s *Strike) error {
		node := s.node()
		return s.crashed(node, func() { signalBackend(node.watchdog(), syscall.SIGKILL) })
	}},
	{name: "holder killed", sessions: true, crash: true, do: func(s *Strike) error { return s.kill(phaseHolding) }},
	{name: "waiter killed", sessions: true, crash: true, do: func(s *Strike) error { return s.kill(phaseAcquiring) }},
	{name: "releaser killed", sessions: true, crash: true, do: func(s *Strike) error { return s.kill(phaseReleasing) }},
	{name: "server killed", crash: true, power: true, do: func(s *Strike) error {
		node := s.node()
		node.mu.Lock()
		defer node.mu.Unlock()
		if err := node.crash(); err != nil {
			return err
		}
		time.Sleep(s.length / 4)
		return node.start()
	}},
	{name: "server restarted", crash: true, do: func(s *Strike) error {
		node := s.node()
		node.mu.Lock()
		defer node.mu.Unlock()
		return node.restart([]syscall.Signal{syscall.SIGINT, syscall.SIGQUIT}[s.rng.Intn(2)])
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
	{name: "clock of PostgreSQL jumps", sessions: true, mild: true, clock: true, do: func(s *Strike) error {
		node := s.node()
		jump := time.Duration(s.rng.Int63n(int64(2*time.Hour))) - time.Hour
		node.clock.shift(jump)
		s.rest()
		node.mu.Lock()
		defer node.mu.Unlock()
		if jump > 0 {
			s.awaitWorkers(node)
		}
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

// awaitWorkers: PostgreSQL restarts a worker one second after it has ended, by the wall clock.
// That would be an hour later if the clock were set back within this second.  The caller holds
// node.mu, and so does whoever terminates a worker, until it has ended.
func (s *Strike) awaitWorkers(node *Postgres) {
	for end := time.Now().Add(settleLimit); time.Now().Before(end); sleepMillis(100) {
		if node.watchdog() != 0 && (!s.env.hasRows() || node.tableWorker() != 0) {
			return
		}
	}
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
