// Copyright (c) 2026, lockredis contributors

package main

import (
	"context"
	"math/rand"
	"net"
	"sync"
	"syscall"
	"time"
)

// What a proxy does to what passes through it.
const (
	passAll       = "pass"
	delayBoth     = "delay"          // each piece by a random time
	stallBoth     = "stall"          // nothing arrives until the fault is over
	stallRequests = "stall requests" // likewise, replies of former ones do
	stallReplies  = "stall replies"
	dropRequests  = "drop requests" // swallowed; the connection is dead from then on
	dropReplies   = "drop replies"  // the request is done, nobody learns of it
	cutReplies    = "cut"           // the request is forwarded, then a reset
	resetRequests = "reset"         // a reset instead of forwarding
	truncateBoth  = "truncate"      // a part, then a reset
	refuseAll     = "refuse"        // no connections
)

// A Proxy stands between some clients and Redis.  What arrives is read at once
// and delivered when the fault allows, even if its sender has gone meanwhile: so
// do the buffers of a network.  It knows nothing of the protocol; requests of
// lockredis are small enough to arrive in one piece.
type Proxy struct {
	listener net.Listener
	network  string // to Redis: unix or tcp
	upstream string

	mu    sync.Mutex
	rng   *rand.Rand
	kind  string
	prob  float64
	delay time.Duration
	over  chan struct{} // closed when the fault is over
	conns map[*proxyConn]bool
}

type proxyConn struct {
	p              *Proxy
	client, server net.Conn
}

// One direction of a connection
type pipe struct {
	c        *proxyConn
	requests bool
	from, to net.Conn

	mu    sync.Mutex
	more  *sync.Cond
	queue []piece
	dead  bool // from here on everything is swallowed
}

type piece struct {
	data  []byte
	at    time.Time
	after <-chan struct{}
	reset bool // then reset the client's connection
	last  bool
}

// keepAlive: an end that was lost on a cut link is found out by probes each second, as by
// Redis's own tcp-keepalive: lockredis's kernel does not repeat it for longer than the time
// limits allow (TCP_USER_TIMEOUT).  Connections inherit this from the listener.  From version
// 1.23 on Go itself sets only the idle time before the first probe, and 15 s between probes.
func keepAlive(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1)
		syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 1)
		syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 1)
	})
}

func newProxy(address, network, upstream string, seed int64) (*Proxy, error) {
	config := net.ListenConfig{KeepAlive: -1, Control: keepAlive}
	listener, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, network: network, upstream: upstream, kind: passAll,
		rng: rand.New(rand.NewSource(seed)), conns: map[*proxyConn]bool{}}
	go p.serve()
	return p, nil
}

func (p *Proxy) address() string { return p.listener.Addr().String() }

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		kind := p.kind
		p.mu.Unlock()
		if kind == refuseAll {
			reset(client)
			continue
		}
		server, err := net.Dial(p.network, p.upstream)
		if err != nil {
			reset(client)
			continue
		}
		c := &proxyConn{p, client, server}
		p.mu.Lock()
		p.conns[c] = true
		p.mu.Unlock()
		c.start()
	}
}

func (p *Proxy) close() {
	p.listener.Close()
	p.resetAll()
}

func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

func (p *Proxy) resetAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c.client)
	}
}

// begin starts a fault: from now on each piece is hit with this probability.
func (p *Proxy) begin(kind string, prob float64, delay time.Duration) {
	p.mu.Lock()
	p.kind, p.prob, p.delay = kind, prob, delay
	p.over = make(chan struct{})
	p.mu.Unlock()
	if kind == refuseAll {
		p.resetAll()
	}
}

// end lets everything pass again.  Connections that have lost something cannot
// go on: a real one would not lose a part and deliver the rest.
func (p *Proxy) end(kind string) {
	p.mu.Lock()
	if p.over != nil {
		close(p.over)
		p.over = nil
	}
	p.kind = passAll
	p.mu.Unlock()
	switch kind {
	case dropRequests, dropReplies:
		p.resetAll()
	}
}

func (c *proxyConn) start() {
	requests := &pipe{c: c, requests: true, from: c.client, to: c.server}
	replies := &pipe{c: c, from: c.server, to: c.client}

	for _, pp := range []*pipe{requests, replies} {
		pp.more = sync.NewCond(&pp.mu)
		go pp.read()
		go pp.write()
	}
}

func (pp *pipe) push(p piece) {
	pp.mu.Lock()
	pp.queue = append(pp.queue, p)
	pp.mu.Unlock()
	pp.more.Signal()
}

func (pp *pipe) read() {
	buffer := make([]byte, 65536)

	for {
		n, err := pp.from.Read(buffer)
		if n > 0 && !pp.dead {
			data := append([]byte(nil), buffer[:n]...)
			pp.push(pp.c.p.judge(pp, data))
		}
		if err != nil {
			pp.push(piece{last: true})
			return
		}
	}
}

// judge decides what becomes of a piece.
func (p *Proxy) judge(pp *pipe, data []byte) piece {
	p.mu.Lock()
	defer p.mu.Unlock()
	whole := piece{data: data}

	if p.kind == passAll || p.rng.Float64() >= p.prob {
		return whole
	}
	switch p.kind {
	case delayBoth:
		whole.at = time.Now().Add(time.Duration(p.rng.Int63n(int64(p.delay) + 1)))
	case stallBoth:
		whole.after = p.over
	case stallRequests:
		if pp.requests {
			whole.after = p.over
		}
	case stallReplies:
		if !pp.requests {
			whole.after = p.over
		}
	case dropRequests:
		if pp.requests {
			pp.dead = true
			return piece{}
		}
	case dropReplies:
		if !pp.requests {
			pp.dead = true
			return piece{}
		}
	case cutReplies:
		if !pp.requests {
			pp.dead = true
			return piece{reset: true}
		}
	case resetRequests:
		if pp.requests {
			pp.dead = true
			return piece{reset: true}
		}
	case truncateBoth:
		pp.dead = true
		return piece{data: data[:p.rng.Intn(len(data))], reset: true}
	}
	return whole
}

func (pp *pipe) write() {
	for {
		pp.mu.Lock()
		for len(pp.queue) == 0 {
			pp.more.Wait()
		}
		next := pp.queue[0]
		pp.queue = pp.queue[1:]
		pp.mu.Unlock()

		if next.after != nil {
			<-next.after
		}
		if wait := time.Until(next.at); !next.at.IsZero() && wait > 0 {
			time.Sleep(wait)
		}
		if len(next.data) > 0 {
			// Whoever is gone does not get it.
			pp.to.Write(next.data)
		}
		if next.reset {
			reset(pp.c.client)
		}
		if next.last {
			pp.to.Close()
			if !pp.requests {
				pp.c.p.mu.Lock()
				delete(pp.c.p.conns, pp.c)
				pp.c.p.mu.Unlock()
			}
			return
		}
	}
}
