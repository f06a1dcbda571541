// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"syscall"
	"time"
)

// Faults of a master, its replicas and the Sentinels that watch them.  Each is over
// when a master with two replicas is there again and all Sentinels agree.  With
// min_replicas = 2 (all that there are) no lock may be lost or granted twice.
var sentinelFaults = []*Fault{
	{name: "master killed", possible: hasSentinels, do: func(s *Strike) error {
		return s.withoutMaster((*Redis).crash, (*Redis).start)
	}},
	{name: "master shut down", possible: hasSentinels, do: func(s *Strike) error {
		return s.withoutMaster((*Redis).stop, (*Redis).start)
	}},
	{name: "master frozen", possible: hasSentinels, do: func(s *Strike) error {
		return s.withoutMaster(freeze, thaw)
	}},
	{name: "master killed ahead of its replicas", possible: hasSentinels, do: func(s *Strike) error {
		return s.killAhead(func() { sleepMillis(300) })
	}},
	{name: "master cut off", possible: hasBridge, do: func(s *Strike) error {
		return s.withoutMaster(
			func(r *Redis) { s.cutOff(r, true) },
			func(*Redis) error { return s.env.sentinels.bridge.heal() })
	}},
	{name: "master cut off from the others, not from PostgreSQL", possible: hasBridge,
		do: func(s *Strike) error {
			return s.withoutMaster(
				func(r *Redis) { s.cutOff(r, false) },
				func(*Redis) error { return s.env.sentinels.bridge.heal() })
		}},
	{name: "planned failover", possible: hasSentinels, do: func(s *Strike) error {
		old := s.env.sentinels.master()
		if err := s.env.sentinels.order(); err != nil {
			return err
		}
		return s.settleAfter(old)
	}},
	{name: "master frozen for a moment", possible: hasSentinels, do: func(s *Strike) error {
		master := s.env.sentinels.master()
		freeze(master)
		time.Sleep(downAfter / 2)
		if err := thaw(master); err != nil {
			return err
		}
		return s.env.sentinels.settle()
	}},
	{name: "replica killed", possible: hasSentinels, do: func(s *Strike) error {
		replica := s.replica()
		replica.crash()
		s.rest()
		if err := replica.start(); err != nil {
			return err
		}
		return s.env.sentinels.settle()
	}},
	{name: "replica frozen", possible: hasSentinels, do: func(s *Strike) error {
		replica := s.replica()
		freeze(replica)
		s.rest()
		if err := thaw(replica); err != nil {
			return err
		}
		return s.env.sentinels.settle()
	}},
	{name: "replica cut off", possible: hasBridge, do: func(s *Strike) error {
		s.cutOff(s.replica(), true)
		s.rest()
		if err := s.env.sentinels.bridge.heal(); err != nil {
			return err
		}
		return s.env.sentinels.settle()
	}},
	{name: "Sentinel killed", possible: hasSentinels, do: func(s *Strike) error {
		return s.withoutSentinels(1 + s.rng.Intn(2))
	}},
	{name: "all Sentinels killed", possible: hasSentinels, do: func(s *Strike) error {
		return s.withoutSentinels(3)
	}},
	{name: "Sentinel frozen", possible: hasSentinels, do: func(s *Strike) error {
		sentinel := s.env.sentinels.sentinels[s.rng.Intn(3)]
		freeze(sentinel)
		s.rest()
		if err := thaw(sentinel); err != nil {
			return err
		}
		return s.env.sentinels.settle()
	}},
	{name: "CLIENT KILL at the master", possible: hasSentinels, do: func(s *Strike) error {
		for i := 0; i < 10; i++ {
			master := s.env.sentinels.master()
			ids, err := master.clients()
			if err == nil && len(ids) > 0 {
				master.cmd("CLIENT", "KILL", "ID", ids[s.rng.Intn(len(ids))])
			}
			time.Sleep(s.length / 10)
		}
		return nil
	}},
	{name: "SCRIPT FLUSH at the master", mild: true, possible: hasSentinels, do: func(s *Strike) error {
		_, err := s.env.sentinels.master().cmd("SCRIPT", "FLUSH")
		return err
	}},
	{name: "FLUSHALL at the master", breaks: true, possible: hasSentinels, do: func(s *Strike) error {
		_, err := s.env.sentinels.master().cmd("FLUSHALL")
		return err
	}},
}

func hasSentinels(e *Environment) bool { return e.sentinels != nil }
func hasBridge(e *Environment) bool    { return e.sentinels != nil && e.sentinels.bridge != nil }
func hasOneRedis(e *Environment) bool  { return e.redis != nil }

func freeze(r *Redis) { r.proc.signal(syscall.SIGSTOP) }

func thaw(r *Redis) error {
	r.proc.signal(syscall.SIGCONT)
	return nil
}

func (s *Strike) replica() *Redis {
	others := s.env.sentinels.others(s.env.sentinels.master())
	return others[s.rng.Intn(len(others))]
}

func (s *Strike) cutOff(r *Redis, fromUs bool) {
	sentinels := s.env.sentinels
	if err := sentinels.bridge.isolate(sentinels.machineOf(r), fromUs); err != nil {
		s.find("rig", "cut off: %v", err)
	}
}

// settleAfter waits until that one has been replaced, and all is in order.
func (s *Strike) settleAfter(old *Redis) error {
	if err := s.env.sentinels.waitForOther(old); err != nil {
		return err
	}
	return s.env.sentinels.settle()
}

// withoutMaster takes the master away until another one is named, and somewhat
// longer.
func (s *Strike) withoutMaster(end func(*Redis), back func(*Redis) error) error {
	old := s.env.sentinels.master()

	end(old)
	err := s.env.sentinels.waitForOther(old)
	s.rest()
	if failed := back(old); err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	return s.settleAfter(old)
}

// killAhead: what the master has got meanwhile, no replica has.
func (s *Strike) killAhead(meanwhile func()) error {
	old := s.env.sentinels.master()
	replicas := s.env.sentinels.others(old)

	for _, replica := range replicas {
		freeze(replica)
	}
	_, err := old.cmd("CLIENT", "KILL", "TYPE", "replica")
	meanwhile()
	old.crash()
	for _, replica := range replicas {
		thaw(replica)
	}
	if err == nil {
		err = s.env.sentinels.waitForOther(old)
	}
	if failed := old.start(); err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	return s.settleAfter(old)
}

func (s *Strike) withoutSentinels(n int) error {
	sentinels := s.env.sentinels.sentinels
	first := s.rng.Intn(len(sentinels))
	var err error

	for i := 0; i < n; i++ {
		sentinels[(first+i)%len(sentinels)].crash()
	}
	s.rest()
	for i := 0; i < n; i++ {
		if failed := sentinels[(first+i)%len(sentinels)].start(); failed != nil {
			err = fmt.Errorf("Sentinel: %w", failed)
		}
	}
	if err != nil {
		return err
	}
	return s.env.sentinels.settle()
}
