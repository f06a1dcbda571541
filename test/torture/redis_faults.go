// Copyright (c) 2026, lockredis contributors

package main

import (
	"syscall"
	"time"
)

// Faults of the one Redis
var redisFaults = onlyWith(hasOneRedis, []*Fault{
	{name: "Redis stopped", do: func(s *Strike) error {
		s.env.redis.proc.signal(syscall.SIGSTOP)
		s.rest()
		s.env.redis.proc.signal(syscall.SIGCONT)
		return nil
	}},
	{name: "Redis killed, started again with its data", power: true, do: func(s *Strike) error {
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
})

func onlyWith(possible func(*Environment) bool, faults []*Fault) []*Fault {
	for _, f := range faults {
		f.possible = possible
	}
	return faults
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
