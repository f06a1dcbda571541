// Copyright (c) 2026, lockredis contributors

package main

import "sync"

// Faults of the network
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
		faults = append(faults, &Fault{name: "proxy: " + kind, possible: hasProxies, do: func(s *Strike) error {
			s.withLinks(s.someLinks(), kind)
			return nil
		}})
	}
	return faults
}

func hasProxies(e *Environment) bool { return e.redis != nil || e.masters != nil }

// someLinks are those of one server or of all.
func (s *Strike) someLinks() []*Proxy {
	if s.env.masters != nil {
		return s.mastersLinks()
	}
	links := []*Proxy{s.link()}
	if s.env.bare != nil && s.rng.Intn(3) == 0 {
		links = append(append([]*Proxy{}, s.env.links...), s.env.bare)
	}
	return links
}

// withLinks does to all of them what a proxy can do, for as long as the fault lasts.
func (s *Strike) withLinks(links []*Proxy, kind string) {
	var wait sync.WaitGroup
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
}
