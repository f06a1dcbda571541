// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Options say where things are.
type Options struct {
	dir       string // of this run
	shim      string // clockshift
	lua       string // the scripts of the extension
	redisson  string // class path, "" = without
	namespace bool   // we may make network namespaces
}

// An Environment is all servers and what stands between them:
//
//	pg1 --- network namespace --- proxy ---+
//	pg2 ------------------------- proxy ---+--- Redis
//	bare clients ---------------- proxy ---+
//	Redisson -------------------- proxy ---+
type Environment struct {
	options  Options
	redis    *Redis
	network  *Network // nil: not possible here
	nodes    []*Postgres
	links    []*Proxy // of nodes, in their order
	bare     *Proxy
	java     *Proxy
	redisson *Redisson // nil: without
	clients  int       // of Redisson, so far
	notes    []string
}

func newEnvironment(o Options, seed int64) (*Environment, error) {
	e := &Environment{options: o}
	var err error

	if e.redis, err = newRedis(filepath.Join(o.dir, "r"), o.shim); err != nil {
		return e, err
	}
	if o.namespace {
		if e.network, err = newNetwork(); err != nil {
			e.network = nil
			e.notes = append(e.notes, "no cut links: "+err.Error())
		}
	} else {
		e.notes = append(e.notes, "no cut links: network namespaces are not permitted")
	}

	for i, name := range []string{"pg1", "pg2"} {
		host, enter := "127.0.0.1", (func(...string) []string)(nil)
		if i == 0 && e.network != nil {
			host, enter = e.network.ours.address, e.network.inside
		}
		link, err := newProxy(host+":0", e.redis.socket, seed+int64(i))
		if err != nil {
			return e, err
		}
		e.links = append(e.links, link)
		node, err := newPostgres(name, filepath.Join(o.dir, name),
			"redis://"+link.address(), o.shim, enter)
		if node != nil {
			e.nodes = append(e.nodes, node)
		}
		if err != nil {
			return e, err
		}
	}
	if e.bare, err = newProxy("127.0.0.1:0", e.redis.socket, seed+2); err != nil {
		return e, err
	}
	if o.redisson != "" {
		if e.java, err = newProxy("127.0.0.1:0", e.redis.socket, seed+3); err != nil {
			return e, err
		}
		if e.redisson, err = startRedisson(o.redisson, filepath.Join(o.dir, "redisson.log")); err != nil {
			return e, err
		}
	} else {
		e.notes = append(e.notes, "no Redisson")
	}
	return e, e.checkClocks()
}

// checkClocks: a rig that cannot shift the clocks proves nothing.
func (e *Environment) checkClocks() error {
	node := e.nodes[0]
	node.clock.shift(time.Hour)
	rows, err := node.query("SELECT clock_timestamp() - interval '59 minutes' > '" +
		time.Now().Format(time.RFC3339) + "'")
	node.clock.shift(0)
	if err != nil || rows[0][0] != "t" {
		return fmt.Errorf("the clock of PostgreSQL could not be shifted: %v %v", rows, err)
	}

	e.redis.clock.shift(time.Hour)
	reply, err := e.redis.cmd("TIME")
	e.redis.clock.shift(0)
	if err != nil {
		return err
	}
	var shifted int64
	fmt.Sscan(reply.([]interface{})[0].(string), &shifted)
	if shifted-time.Now().Unix() < 3500 {
		return fmt.Errorf("the clock of Redis could not be shifted")
	}
	return nil
}

func (e *Environment) stop() {
	for _, node := range e.nodes {
		node.stop()
	}
	if e.redisson != nil {
		e.redisson.stop()
	}
	for _, link := range append(append([]*Proxy{}, e.links...), e.bare, e.java) {
		if link != nil {
			link.close()
		}
	}
	if e.redis != nil {
		e.redis.stop()
	}
	if e.network != nil {
		e.network.close()
	}
}

// connectRedisson makes a client of Redisson with a connection pool of its own.
func (e *Environment) connectRedisson(lease time.Duration) (string, error) {
	e.clients++
	name := fmt.Sprintf("c%d", e.clients)
	_, port, err := net.SplitHostPort(e.java.address())
	if err != nil {
		return "", err
	}
	_, err = e.redisson.call(redissonLimit, name, "connect", "redis://127.0.0.1:"+port,
		fmt.Sprint(lease.Milliseconds()))
	return name, err
}

// keep saves what helps to understand a finding, beside the logs of the servers.
func (e *Environment) keep(name, text string) {
	os.WriteFile(filepath.Join(e.options.dir, name), []byte(text), 0o600)
}
