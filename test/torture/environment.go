// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Options say where things are.
type Options struct {
	dir       string // of this run
	shim      string // clockshift
	powercut  string // "": who is killed has not lost its power
	lua       string // the scripts of the extension
	redisson  string // class path, "" = without
	redsync   string // the program, "" = without
	namespace bool   // we may make network namespaces

	keep     bool // histories, also without a finding
	kinds    []*Kind
	topology string     // "one", "sentinel", "masters", "table", "fallback" ...
	tls      *Authority // nil: not encrypted
}

// An Environment is all servers and what stands between them:
//
//	pg1 --- network namespace --- proxy ---+
//	pg2 ------------------------- proxy ---+--- Redis
//	bare clients ---------------- proxy ---+
//	Redisson -------------------- proxy ---+
//
// or, where Sentinels name the master, and all go to it directly:
//
//	pg1, pg2, bare clients, Redisson --- bridge --- three machines, each a
//	network namespace with a Redis and a Sentinel
//
// or five independent masters, with such a proxy before each of them for each of
// those; or one server and one Redis, in fallback mode; or a server without any Redis, in
// table mode.
type Environment struct {
	options   Options
	redis     *Redis     // nil: there is not just one
	sentinels *Sentinels // nil: there are none
	masters   *Masters   // nil: likewise
	network   *Network   // nil: not possible here
	nodes     []*Postgres
	links     []*Proxy // of nodes to the one Redis, in their order
	bare      *Proxy
	java      *Proxy
	redisson  *Redisson         // nil: without
	clients   int               // of Redisson, so far
	instances map[string]string // which servers there were, by their names to stores
	notes     []string
}

func (e *Environment) dirOf(server string) string {
	return filepath.Join(e.options.dir, server)
}

// stores are those that have the locks at the moment.
func (e *Environment) stores() []*Redis {
	switch {
	case e.sentinels != nil:
		return []*Redis{e.sentinels.master()}
	case e.masters != nil:
		return e.masters.nodes
	case e.redis != nil:
		return []*Redis{e.redis}
	}
	return nil
}

// forget deletes keys of the store that no lock is any more.
func (e *Environment) forget(keys ...interface{}) {
	for _, store := range e.stores() {
		store.cmd(append([]interface{}{"DEL"}, keys...)...)
	}
	if e.hasRows() {
		e.forgetRows(keys...)
	}
}

// forBare is where a client without a library finds it.
func (e *Environment) forBare() string {
	if e.sentinels != nil {
		master := e.sentinels.master()
		return fmt.Sprintf("%s:%d", master.host, master.port)
	}
	return e.bare.address()
}

func newEnvironment(o Options, seed int64) (*Environment, error) {
	e := &Environment{options: o, instances: map[string]string{}}
	var err error

	switch o.topology {
	case "sentinel":
		err = e.beginSentinels()
	case "masters":
		err = e.beginMasters(seed)
	case "table", "standby-table":
		err = e.beginTable()
	case "fallback":
		err = e.beginFallback(seed)
	default:
		err = e.beginRedis(seed)
	}
	if err == nil {
		err = e.beginCopied()
	}
	if err != nil {
		return e, err
	}
	if err := e.beginRedisson(); err != nil {
		return e, err
	}
	return e, e.checkClocks()
}

// beginRedisson: it encrypts only what cannot be had otherwise.
func (e *Environment) beginRedisson() error {
	o := e.options
	var trust []string
	var err error

	if e.hasRows() {
		return nil
	}
	if o.redisson == "" {
		e.notes = append(e.notes, "no Redisson")
		return nil
	}
	if o.tls != nil && e.sentinels != nil {
		if trust, err = o.tls.javaOptions(); err != nil {
			return err
		}
	}
	e.redisson, err = startRedisson(o.redisson, filepath.Join(o.dir, "redisson.log"), trust)
	return err
}

// settings of TLS for the servers
func (o Options) tlsSettings() string {
	if o.tls == nil {
		return ""
	}
	return fmt.Sprintf("lockredis.tls_ca_file = '%s'\n", o.tls.caFile)
}

func (e *Environment) beginSentinels() error {
	o := e.options
	var err error

	if !o.namespace {
		e.notes = append(e.notes, "nobody cut off: network namespaces are not permitted")
	}
	if e.sentinels, err = newSentinels(o); err != nil {
		return err
	}
	for _, name := range []string{"pg1", "pg2"} {
		err := e.addPostgres(name, e.sentinels.url(o.tls != nil), nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// beginBehindProxies starts it; what PostgreSQL's URLs begin with, and where proxies
// for that find it.
func (r *Redis) beginBehindProxies(tls *Authority) (scheme, network, upstream string, err error) {
	scheme, network, upstream = "redis://", "unix", filepath.Join(r.dir, "s")
	if tls != nil {
		if r.tlsPort, err = freePort("127.0.0.1"); err != nil {
			return
		}
		r.config = tls.redisConfig(r.tlsPort)
		scheme, network = "rediss://", "tcp"
		upstream = fmt.Sprintf("127.0.0.1:%d", r.tlsPort)
	}
	err = r.begin()
	return
}

// beginNetwork: without it nothing is cut off.
func (e *Environment) beginNetwork() {
	var err error

	if !e.options.namespace {
		e.notes = append(e.notes, "no cut links: network namespaces are not permitted")
		return
	}
	if e.network, err = newNetwork(); err != nil {
		e.network = nil
		e.notes = append(e.notes, "no cut links: "+err.Error())
	}
}

// whereIs: the first server is in the other namespace, and finds us there.
func (e *Environment) whereIs(i int) (host string, enter func(...string) []string) {
	if i == 0 && e.network != nil {
		return e.network.ours.address, e.network.inside
	}
	return "127.0.0.1", nil
}

func (e *Environment) beginRedis(seed int64) error {
	o := e.options

	e.redis = &Redis{dir: filepath.Join(o.dir, "r"), shim: o.shim, library: o.powercut}
	scheme, network, upstream, err := e.redis.beginBehindProxies(o.tls)
	if err != nil {
		return err
	}
	e.beginNetwork()
	for i, name := range []string{"pg1", "pg2"} {
		host, enter := e.whereIs(i)
		link, err := newProxy(host+":0", network, upstream, seed+int64(i))
		if err != nil {
			return err
		}
		e.links = append(e.links, link)
		if err := e.addPostgres(name, scheme+link.address(), enter); err != nil {
			return err
		}
	}
	if e.bare, err = newProxy("127.0.0.1:0", "unix", e.redis.socket, seed+2); err != nil {
		return err
	}
	e.java, err = newProxy("127.0.0.1:0", "unix", e.redis.socket, seed+3)
	return err
}

func (e *Environment) addPostgres(name, url string, enter func(...string) []string) error {
	settings := fmt.Sprintf("lockredis.url = '%s'\n", url) + e.options.tlsSettings()
	if e.inTable() {
		settings = "lockredis.mode = 'table'\n"
	}
	if e.inFallback() {
		settings += fallbackSettings
	}
	if e.masters != nil {
		settings += mastersSettings
	}
	if e.hasStandby() {
		settings += standbySettings
	}
	node, err := newPostgres(name, filepath.Join(e.options.dir, name), settings,
		e.options, enter)

	if node != nil {
		e.nodes = append(e.nodes, node)
	}
	return err
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

	stores := e.stores()
	if len(stores) == 0 || e.sentinels != nil {
		return nil
	}
	stores[0].clock.shift(time.Hour)
	reply, err := stores[0].cmd("TIME")
	stores[0].clock.shift(0)
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
	if e.sentinels != nil {
		e.sentinels.stop()
	}
	if e.masters != nil {
		e.masters.stop()
	}
	if e.network != nil {
		e.network.close()
	}
}

// connectRedisson makes a client of Redisson with a connection pool of its own.
func (e *Environment) connectRedisson(lease time.Duration) (string, error) {
	e.clients++
	name := fmt.Sprintf("c%d", e.clients)
	url := ""
	switch {
	case e.sentinels != nil:
		url = e.sentinels.url(e.options.tls != nil)
	case e.masters != nil:
		url = urls("redis://", e.masters.java)
	default:
		url = "redis://" + e.java.address()
	}
	_, err := e.redisson.call(redissonLimit, name, "connect", url, fmt.Sprint(lease.Milliseconds()))
	return name, err
}

// keep saves what helps to understand a finding, beside the logs of the servers.
func (e *Environment) keep(name, text string) {
	os.WriteFile(filepath.Join(e.options.dir, name), []byte(text), 0o600)
}
