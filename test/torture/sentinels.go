// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// Sentinels are three machines, each with a Redis and a Sentinel: a master and two
// replicas.  A machine is a network namespace where that is possible.
type Sentinels struct {
	bridge    *Bridge // nil: all on loopback
	nodes     []*Redis
	sentinels []*Redis
	machines  []*Machine // of nodes and Sentinels, in their order
}

const (
	serviceName = "torture"

	// How long a master is away before it is taken for dead
	downAfter = time.Second

	// A Sentinel that has not run for 2 s judges nobody for half a minute.  By then replicas
	// have been without their master for longer than 10 * downAfter, and none of them would
	// ever be made the master.  So downAfter becomes downAfterLate if none is after lateAfter.
	downAfterLate = 10 * time.Second
	lateAfter     = 15 * time.Second

	// For all that Sentinels have to settle after a fault
	settleLimit = 2 * time.Minute
)

// What nobody owns has no lease, so what a failover loses of it is lost: that there are no
// rounds of.
var sentinelKinds = []*Kind{lockKind, readWriteKind, fairKind, multiKind, tokenKind,
	conditionKind, permitKind}

func freePort(host string) (int, error) {
	listener, err := net.Listen("tcp", host+":0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func newSentinels(o Options) (*Sentinels, error) {
	s := &Sentinels{}
	var err error

	if o.namespace {
		if s.bridge, err = newBridge(); err != nil {
			return s, err
		}
	}
	for i := 0; i < 3; i++ {
		r := &Redis{dir: filepath.Join(o.dir, fmt.Sprintf("r%d", i+1)), shim: o.shim, library: o.powercut}
		machine := (*Machine)(nil)
		if s.bridge != nil {
			if machine, err = s.bridge.newMachine(); err != nil {
				return s, err
			}
		}
		s.machines = append(s.machines, machine)
		if err := r.place(machine, o.tls); err != nil {
			return s, err
		}
		r.config = append(r.config, "repl-diskless-sync-delay 0", "repl-ping-replica-period 1")
		if i > 0 {
			host, port, _ := net.SplitHostPort(s.nodes[0].address())
			r.config = append(r.config, "replicaof "+host+" "+port)
		}
		s.nodes = append(s.nodes, r)
		if err := r.begin(); err != nil {
			return s, err
		}
	}
	for i := 0; i < 3; i++ {
		r := &Redis{dir: filepath.Join(o.dir, fmt.Sprintf("s%d", i+1)), shim: o.shim, library: o.powercut}
		if err := r.place(s.machines[i], o.tls); err != nil {
			return s, err
		}
		host, port, _ := net.SplitHostPort(s.nodes[0].address())
		r.config = append(r.config,
			fmt.Sprintf("sentinel monitor %s %s %s 2", serviceName, host, port),
			fmt.Sprintf("sentinel down-after-milliseconds %s %d", serviceName,
				downAfter.Milliseconds()),
			"sentinel failover-timeout "+serviceName+" 3000",
			"sentinel parallel-syncs "+serviceName+" 9")
		s.sentinels = append(s.sentinels, r)
		if err := r.beginSentinel(); err != nil {
			return s, err
		}
	}
	return s, s.settle()
}

// place gives it an address on a machine, or on loopback.
func (r *Redis) place(machine *Machine, tls *Authority) error {
	var err error

	r.host = "127.0.0.1"
	if machine != nil {
		r.host, r.enter = machine.address, machine.inside
	}
	if r.port, err = freePort("127.0.0.1"); err != nil {
		return err
	}
	if tls == nil {
		return nil
	}
	if r.tlsPort, err = freePort("127.0.0.1"); err != nil {
		return err
	}
	r.config = append(r.config, tls.redisConfig(r.tlsPort)...)
	r.config = append(r.config, "tls-replication yes")
	return nil
}

func (r *Redis) beginSentinel() error {
	r.sentinel = true
	return r.begin()
}

// url is what lockredis.url and Redisson are told.
func (s *Sentinels) url(tls bool) string {
	var hosts []string

	for _, sentinel := range s.sentinels {
		hosts = append(hosts, sentinel.address())
	}
	scheme := "redis-sentinel://"
	if tls {
		scheme = "rediss-sentinel://"
	}
	return scheme + strings.Join(hosts, ",") + "/" + serviceName
}

// named is the node that a Sentinel names, nil when it does not answer.
func (s *Sentinels) named(sentinel *Redis) *Redis {
	if sentinel.proc == nil || sentinel.proc.ended() {
		return nil
	}
	reply, err := sentinel.cmdWithin(time.Second, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", serviceName)
	words, ok := reply.([]interface{})
	if err != nil || !ok || len(words) != 2 {
		return nil
	}
	address := fmt.Sprintf("%v:%v", words[0], words[1])
	for _, node := range s.nodes {
		if node.address() == address {
			return node
		}
	}
	return nil
}

// master is the node that most Sentinels name.
func (s *Sentinels) master() *Redis {
	votes := map[*Redis]int{}
	best := s.nodes[0]

	for _, sentinel := range s.sentinels {
		if node := s.named(sentinel); node != nil {
			votes[node]++
		}
	}
	for _, node := range s.nodes {
		if votes[node] > votes[best] {
			best = node
		}
	}
	return best
}

func (s *Sentinels) others(master *Redis) []*Redis {
	var others []*Redis

	for _, node := range s.nodes {
		if node != master {
			others = append(others, node)
		}
	}
	return others
}

func (s *Sentinels) machineOf(r *Redis) *Machine {
	for i := range s.nodes {
		if s.nodes[i] == r || i < len(s.sentinels) && s.sentinels[i] == r {
			return s.machines[i]
		}
	}
	return nil
}

// setDownAfter: one that is away keeps what it has.
func (s *Sentinels) setDownAfter(after time.Duration) {
	for _, sentinel := range s.sentinels {
		_, _ = sentinel.cmdWithin(time.Second, "SENTINEL", "SET", serviceName,
			"down-after-milliseconds", fmt.Sprint(after.Milliseconds()))
	}
}

// waitForOther returns when two Sentinels name another master than that.
func (s *Sentinels) waitForOther(old *Redis) error {
	start, late := time.Now(), false

	for time.Since(start) < settleLimit {
		if !late && time.Since(start) > lateAfter {
			late = true
			s.setDownAfter(downAfterLate)
			defer s.setDownAfter(downAfter)
		}
		others := 0
		for _, sentinel := range s.sentinels {
			if node := s.named(sentinel); node != nil && node != old {
				others++
			}
		}
		if others >= 2 {
			return nil
		}
		sleepMillis(100)
	}
	return fmt.Errorf("the Sentinels name no other master than %s", old.address())
}

// info is one section of INFO as a map.
func (r *Redis) info(section string) map[string]string {
	facts := map[string]string{}
	reply, err := r.cmdWithin(time.Second, "INFO", section)

	text, _ := reply.(string)
	if err != nil {
		return facts
	}
	for _, line := range strings.Split(text, "\r\n") {
		if name, value, found := strings.Cut(line, ":"); found {
			facts[name] = value
		}
	}
	return facts
}

// settled: all nodes are where they belong, and all Sentinels know that.
func (s *Sentinels) settled() bool {
	master := s.master()
	facts := master.info("replication")

	if facts["role"] != "master" || !strings.Contains(facts["slave0"], "state=online") ||
		!strings.Contains(facts["slave1"], "state=online") {
		return false
	}
	for _, sentinel := range s.sentinels {
		if s.named(sentinel) != master {
			return false
		}
		reply, err := sentinel.cmd("SENTINEL", "MASTER", serviceName)
		if err != nil {
			return false
		}
		about := pairs(reply)
		if about["flags"] != "master" || about["num-other-sentinels"] != "2" {
			return false
		}
		reply, err = sentinel.cmd("SENTINEL", "SLAVES", serviceName)
		replicas, ok := reply.([]interface{})
		if err != nil || !ok || len(replicas) != 2 {
			return false
		}
		for _, replica := range replicas {
			about := pairs(replica)
			if about["flags"] != "slave" || about["role-reported"] != "slave" ||
				about["master-link-status"] != "ok" {
				return false
			}
		}
	}
	return true
}

// pairs makes a map of a list of names and values.
func pairs(reply interface{}) map[string]string {
	facts := map[string]string{}
	words, _ := reply.([]interface{})

	for i := 0; i+1 < len(words); i += 2 {
		facts[fmt.Sprint(words[i])] = fmt.Sprint(words[i+1])
	}
	return facts
}

// order begins a failover by command; right after another one it is refused.
func (s *Sentinels) order() error {
	var err error

	for end := time.Now().Add(settleLimit); time.Now().Before(end); sleepMillis(200) {
		if _, err = s.sentinels[0].cmd("SENTINEL", "FAILOVER", serviceName); err == nil {
			return nil
		}
	}
	return err
}

func (s *Sentinels) settle() error {
	for end := time.Now().Add(settleLimit); time.Now().Before(end); sleepMillis(200) {
		if s.settled() {
			return nil
		}
	}
	return fmt.Errorf("the Sentinels do not agree on a master with two replicas")
}

func (s *Sentinels) stop() {
	for _, r := range append(append([]*Redis{}, s.sentinels...), s.nodes...) {
		r.stop()
	}
	if s.bridge != nil {
		s.bridge.close()
	}
}
