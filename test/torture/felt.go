// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"strings"
	"syscall"
	"time"
)

// checkFelt: a fault that nobody feels proves nothing.  Each of these must make a
// request of a server fail while it lasts, and no longer.
func checkFelt(e *Environment, tell func(string)) []Finding {
	var found []Finding

	node, link, redis := e.nodes[0], e.links[0], e.redis
	command := func(words ...interface{}) func() error {
		return func() error {
			_, err := redis.cmd(words...)
			return err
		}
	}
	signal := func(sig syscall.Signal) func() error {
		return func() error {
			redis.proc.signal(sig)
			return nil
		}
	}
	faults := []struct {
		name       string
		begin, end func() error
	}{
		{"Redis stopped", signal(syscall.SIGSTOP), signal(syscall.SIGCONT)},
		{"CLIENT PAUSE", command("CLIENT", "PAUSE", 4000),
			func() error { sleepMillis(4000); return nil }},
		{"OOM", command("CONFIG", "SET", "maxmemory", 1), command("CONFIG", "SET", "maxmemory", 0)},
		{"READONLY", command("REPLICAOF", "127.0.0.1", 1), command("REPLICAOF", "NO", "ONE")},
	}
	for _, kind := range []string{stallBoth, stallRequests, stallReplies, dropRequests,
		dropReplies, cutReplies, resetRequests, truncateBoth, refuseAll} {
		kind := kind
		faults = append(faults, struct {
			name       string
			begin, end func() error
		}{"proxy: " + kind,
			func() error { link.begin(kind, 1, 0); return nil },
			func() error { link.end(kind); return nil }})
	}
	if e.network != nil {
		for i, name := range []string{"towards Redis", "towards PostgreSQL", "both ways"} {
			outgoing, incoming := i != 1, i != 0
			faults = append(faults, struct {
				name       string
				begin, end func() error
			}{"link cut " + name,
				func() error { return e.network.cut(outgoing, incoming) },
				e.network.heal})
		}
	}

	if err := node.set(map[string]string{"lockredis.connect_timeout": "300ms",
		"lockredis.command_timeout": "300ms"}); err != nil {
		return []Finding{{"rig", err.Error()}}
	}
	const request = "SELECT redis_try_lock('felt'); SELECT redis_unlock('felt')"
	for _, f := range faults {
		if err := f.begin(); err != nil {
			return append(found, Finding{"rig", f.name + ": " + err.Error()})
		}
		_, err := node.query(request)
		if err := f.end(); err != nil {
			return append(found, Finding{"rig", f.name + ": " + err.Error()})
		}
		if err == nil || !strings.Contains(err.Error(), "SQLSTATE 58") {
			found = append(found, Finding{"self-test",
				fmt.Sprintf("%s was not felt: %v", f.name, err)})
		}
		for end := time.Now().Add(20 * time.Second); ; sleepMillis(100) {
			if _, err = node.query(request); err == nil {
				break
			}
			if time.Now().After(end) {
				return append(found, Finding{"self-test",
					fmt.Sprintf("%s is over, but felt: %v", f.name, err)})
			}
		}
	}
	tell(fmt.Sprintf("%d faults were felt, and over when they ended", len(faults)))
	return found
}
