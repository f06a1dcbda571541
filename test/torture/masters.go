// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Masters are five independent ones; each is reached by each server, by the other
// programs and by Redisson through a proxy of their own.
type Masters struct {
	nodes []*Redis
	links [][]*Proxy // of each server to each of them
	bare  []*Proxy   // of redsync
	java  []*Proxy
}

const mastersCount = 5

// So many are more than half of them.
const mastersQuorum = mastersCount/2 + 1

// A master that was started lately has no vote: none was, as far as it can tell.
const mastersAge = 24 * time.Hour

func (e *Environment) beginMasters(seed int64) error {
	o := e.options
	m := &Masters{}

	e.masters = m
	var networks, upstreams []string
	var scheme string
	for i := 0; i < mastersCount; i++ {
		r := &Redis{dir: filepath.Join(o.dir, fmt.Sprintf("m%d", i+1)), shim: o.shim, library: o.powercut,
			age: mastersAge}
		m.nodes = append(m.nodes, r)
		s, network, upstream, err := r.beginBehindProxies(o.tls)
		if err != nil {
			return err
		}
		scheme = s
		networks, upstreams = append(networks, network), append(upstreams, upstream)
	}
	e.beginNetwork()
	proxies := func(host string, secret bool) ([]*Proxy, error) {
		var made []*Proxy
		for i, r := range m.nodes {
			network, upstream := "unix", r.socket
			if secret {
				network, upstream = networks[i], upstreams[i]
			}
			seed++
			link, err := newProxy(host+":0", network, upstream, seed)
			if err != nil {
				return made, err
			}
			made = append(made, link)
		}
		return made, nil
	}
	for i, name := range []string{"pg1", "pg2"} {
		host, enter := e.whereIs(i)
		links, err := proxies(host, true)
		m.links = append(m.links, links)
		if err != nil {
			return err
		}
		if err := e.addPostgres(name, urls(scheme, links), enter); err != nil {
			return err
		}
	}
	var err error
	if m.bare, err = proxies("127.0.0.1", false); err != nil {
		return err
	}
	m.java, err = proxies("127.0.0.1", false)
	return err
}

// urls are what lockredis.url and Redisson are told.
func urls(scheme string, links []*Proxy) string {
	var words []string

	for _, link := range links {
		words = append(words, scheme+link.address())
	}
	return strings.Join(words, " ")
}

// settle waits until all have a vote at all servers, and have kept their locks: the
// next round is to begin like the first one.
func (m *Masters) settle(nodes []*Postgres) error {
	var left string

	for end := time.Now().Add(settleLimit); time.Now().Before(end); sleepMillis(100) {
		left = ""
		for _, node := range nodes {
			rows, err := node.query("SELECT string_agg(s::text, ' ') FROM redis_lock_status s " +
				"WHERE NOT (state = 'up' AND in_use)")
			if err != nil {
				left += node.name + ": " + err.Error()
			} else if rows[0][0] != "" {
				left += node.name + ": " + rows[0][0]
			}
		}
		if left == "" {
			return nil
		}
	}
	return fmt.Errorf("the masters do not all have a vote: %s", left)
}

func (m *Masters) stop() {
	for _, links := range append(append([][]*Proxy{}, m.links...), m.bare, m.java) {
		for _, link := range links {
			link.close()
		}
	}
	for _, r := range m.nodes {
		if r.clock != nil {
			r.stop()
		}
	}
}
