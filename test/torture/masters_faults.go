// Copyright (c) 2026, lockredis contributors

package main

import "time"

// Faults of independent masters.  What befalls a few of them, fewer than half, costs
// nothing; what befalls most of them costs no lock while it is shorter than the lease.
// Whoever has forgotten locks has no vote for a lease, and is told of those that are
// held meanwhile: until then nothing else may befall others.
var mastersFaults = onlyWith(hasMasters, []*Fault{
	{name: "few masters stopped", do: func(s *Strike) error { return s.stopMasters(s.few()) }},
	{name: "most masters stopped", do: func(s *Strike) error { return s.stopMasters(s.most()) }},
	{name: "few masters killed, started again with their data", do: func(s *Strike) error {
		return s.restartMasters(s.few(), false)
	}},
	{name: "most masters killed, started again with their data", do: func(s *Strike) error {
		return s.restartMasters(s.most(), false)
	}},
	{name: "few masters killed, started again empty", forgets: true, do: func(s *Strike) error {
		return s.restartMasters(s.few(), true)
	}},
	{name: "one master after the other started again empty", forgets: true,
		do: func(s *Strike) error { return s.rollMasters() }},
	{name: "most masters killed, started again empty", forgets: true, loses: true,
		do: func(s *Strike) error { return s.restartMasters(s.most(), true) }},
	{name: "FLUSHALL at most masters", breaks: true, do: func(s *Strike) error {
		return s.eachMaster(s.most(), "FLUSHALL")
	}},
	{name: "lock deleted at most masters", breaks: true, do: func(s *Strike) error {
		for i := 0; i < 5; i++ {
			key := s.keys[s.rng.Intn(len(s.keys))]
			if err := s.eachMaster(s.most(), "DEL", key); err != nil {
				return err
			}
			time.Sleep(s.length / 5)
		}
		return nil
	}},
	{name: "SCRIPT FLUSH at masters", mild: true, do: func(s *Strike) error {
		for i := 0; i < 10; i++ {
			if err := s.eachMaster(s.any(), "SCRIPT", "FLUSH"); err != nil {
				return err
			}
			time.Sleep(s.length / 10)
		}
		return nil
	}},
	{name: "CLIENT KILL at masters", do: func(s *Strike) error {
		for i := 0; i < 10; i++ {
			for _, r := range s.any() {
				if ids, err := r.clients(); err != nil {
					return err
				} else if len(ids) > 0 {
					r.cmd("CLIENT", "KILL", "ID", ids[s.rng.Intn(len(ids))])
				}
			}
			time.Sleep(s.length / 10)
		}
		return nil
	}},
	{name: "CLIENT PAUSE at masters", do: func(s *Strike) error {
		mode := []string{"ALL", "WRITE"}[s.rng.Intn(2)]
		err := s.eachMaster(s.any(), "CLIENT", "PAUSE", s.length.Milliseconds(), mode)
		s.rest()
		return err
	}},
	{name: "OOM at masters", do: func(s *Strike) error {
		hit := s.any()
		if err := s.eachMaster(hit, "CONFIG", "SET", "maxmemory", 1); err != nil {
			return err
		}
		s.rest()
		return s.eachMaster(hit, "CONFIG", "SET", "maxmemory", 0)
	}},
	{name: "READONLY at masters", do: func(s *Strike) error {
		hit := s.any()
		// Of a master that does not exist, so nothing is copied from there.
		if err := s.eachMaster(hit, "REPLICAOF", "127.0.0.1", 1); err != nil {
			return err
		}
		s.rest()
		return s.eachMaster(hit, "REPLICAOF", "NO", "ONE")
	}},
	{name: "clocks of few masters jump", forgets: true, do: func(s *Strike) error {
		return s.shiftMasters(s.few())
	}},
	{name: "clocks of most masters jump", breaks: true, do: func(s *Strike) error {
		return s.shiftMasters(s.most())
	}},
})

func hasMasters(e *Environment) bool { return e.masters != nil }

// someMasters are so many, at least and at most.
func (s *Strike) someMasters(least, most int) []*Redis {
	nodes := s.env.masters.nodes
	var some []*Redis

	for _, i := range s.rng.Perm(len(nodes))[:least+s.rng.Intn(most-least+1)] {
		some = append(some, nodes[i])
	}
	return some
}

func (s *Strike) few() []*Redis  { return s.someMasters(1, mastersCount-mastersQuorum) }
func (s *Strike) most() []*Redis { return s.someMasters(mastersQuorum, mastersCount) }
func (s *Strike) any() []*Redis  { return s.someMasters(1, mastersCount) }

func (s *Strike) eachMaster(hit []*Redis, words ...interface{}) error {
	for _, r := range hit {
		if _, err := r.cmd(words...); err != nil {
			return err
		}
	}
	return nil
}

func (s *Strike) stopMasters(hit []*Redis) error {
	for _, r := range hit {
		freeze(r)
	}
	s.rest()
	for _, r := range hit {
		thaw(r)
	}
	return nil
}

// restartMasters: they have really run for no time then.
func (s *Strike) restartMasters(hit []*Redis, empty bool) error {
	for _, r := range hit {
		r.crash()
	}
	s.rest()
	for _, r := range hit {
		if empty {
			if err := r.forget(); err != nil {
				return err
			}
		}
		r.age = 0
		if err := r.start(); err != nil {
			return err
		}
	}
	s.restLease(empty)
	return nil
}

// restLease: so long at least until something else may forget, or stop those that have
// not.
func (s *Strike) restLease(forgot bool) {
	if forgot && !s.spec.losses {
		time.Sleep(s.spec.lease * 5 / 4)
	}
}

func (s *Strike) rollMasters() error {
	for _, i := range s.rng.Perm(mastersCount) {
		s.length = time.Duration(s.rng.Intn(300)) * time.Millisecond
		if err := s.restartMasters(s.env.masters.nodes[i:i+1], true); err != nil {
			return err
		}
	}
	return nil
}

// shiftMasters: what they have ends early, or stays for longer.  So that nothing stays
// for good, not by much.
func (s *Strike) shiftMasters(hit []*Redis) error {
	for _, r := range hit {
		r.clock.shift(time.Duration(s.rng.Int63n(int64(3*s.spec.lease))) - s.spec.lease*3/2)
	}
	s.rest()
	for _, r := range hit {
		r.clock.shift(0)
	}
	s.restLease(true)
	return nil
}

// mastersLinks are the ways of one server or all of them to some masters.
func (s *Strike) mastersLinks() []*Proxy {
	m := s.env.masters
	from := [][]*Proxy{m.links[s.rng.Intn(len(m.links))]}
	var hit []*Proxy

	if s.rng.Intn(3) == 0 {
		from = append(append([][]*Proxy{}, m.links...), m.bare)
	}
	n := 1 + s.rng.Intn(mastersCount)
	for _, i := range s.rng.Perm(mastersCount)[:n] {
		for _, links := range from {
			hit = append(hit, links[i])
		}
	}
	return hit
}
