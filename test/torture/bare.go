// Copyright (c) 2026, lockredis contributors

package main

import (
	"errors"
	"fmt"
	"math/rand"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// A Bare is a client without PostgreSQL, with the same scripts, which does not
// renew: what it has ends at the latest with its lease.  It polls, so that
// nothing has to wake it, but its releases wake others.
type Bare struct {
	name    string
	address func() string
	rng     *rand.Rand
	w       *Round
	lease   time.Duration
	conn    *Resp
	writers Writers

	create, release string

	// For negative controls
	ignoresLock  bool // believes that it has what it never asked for
	ignoresOwner bool // deletes the key, whoever has it
	tellsNobody  bool // releases without a message
}

var bareOwners int64

// Longer than any time in which a missed message would go unnoticed
const bareLease = 20 * time.Second

func newBare(w *Round, name string, address func() string, lua string, seed int64) (*Bare, error) {
	b := &Bare{name: name, address: address, w: w, lease: bareLease, writers: Writers{},
		rng: rand.New(rand.NewSource(seed))}

	// As Redis gets them: with the parts that several scripts have.
	embed := filepath.Join(lua, "../../../script/embed-lua")
	for file, text := range map[string]*string{"create.lua": &b.create, "release.lua": &b.release} {
		data, err := exec.Command(embed, "text", filepath.Join(lua, file)).Output()
		if err != nil {
			return nil, err
		}
		*text = string(data)
	}
	return b, nil
}

func (b *Bare) do(words ...interface{}) (interface{}, error) {
	var err error

	if b.conn == nil {
		if b.conn, err = dialRedis("tcp", b.address(), time.Second); err != nil {
			b.conn = nil
			return nil, err
		}
	}
	reply, err := b.conn.do(words...)
	var answered RedisError
	if err != nil && (!errors.As(err, &answered) || strings.HasPrefix(err.Error(), "READONLY")) {
		b.conn.Close()
		b.conn = nil
	}
	return reply, err
}

// giveBack repeats an owner-checked release until it was answered.
func (b *Bare) giveBack(key, owner string) {
	until := time.Now().Add(bareLease)

	for time.Now().Before(until) {
		var err error
		switch {
		case b.ignoresOwner:
			_, err = b.do("DEL", key)
		case b.tellsNobody:
			_, err = b.do("EVAL", b.release, 1, key, owner, "nobody")
		default:
			_, err = b.do("EVAL", b.release, 1, key, owner, "redisson_lock__channel:{"+key+"}")
		}
		if err == nil {
			return
		}
		sleepMillis(100)
	}
}

// run takes and gives back until the round is over.
func (b *Bare) run() {
	step := (*Bare).step
	if b.w.spec.kind.bareRun != nil {
		step = b.w.spec.kind.bareRun
	}
	for !b.w.over() {
		step(b, b.w.keys[b.rng.Intn(len(b.w.keys))])
		time.Sleep(time.Duration(b.rng.Int63n(int64(b.w.spec.think) + 1)))
	}
	b.writers.close()
	if b.conn != nil {
		b.conn.Close()
		b.conn = nil
	}
}

// step is one lock and release.
func (b *Bare) step(key string) {
	owner := fmt.Sprintf("torture:%d", atomic.AddInt64(&bareOwners, 1))
	wait := time.Duration(b.rng.Intn(1500)) * time.Millisecond
	until := time.Now().Add(wait)
	var token int64

	for {
		call := &Call{Client: b.name, Op: opLock, Key: key, Limit: int64(time.Second)}
		b.w.hist.begin(call)
		notAfter := time.Now().Add(2 * time.Second).UnixMilli()
		reply, err := b.do("EVAL", b.create, 2, key, "redisson_lock_token:{"+key+"}",
			b.lease.Milliseconds(), owner, notAfter)
		if err != nil {
			// Done or not: nobody believes that he has it.
			b.w.hist.end(call, "no answer")
			time.Sleep(time.Until(time.UnixMilli(notAfter)))
			b.giveBack(key, owner)
			return
		}
		words := reply.([]interface{})
		if words[0].(int64) == 0 || b.ignoresLock {
			if !b.ignoresLock {
				token = words[1].(int64)
			}
			call.Token = token
			b.w.hist.end(call, resultOK)
			break
		}
		b.w.hist.end(call, resultBusy)
		if !time.Now().Before(until) || b.w.over() {
			return
		}
		sleepMillis(20 + b.rng.Intn(40))
	}

	if write := b.w.spec.bareWrite; write != nil {
		write(b.writers.any(b.w, b.name, b.rng), key, token)
	} else {
		time.Sleep(time.Duration(b.rng.Int63n(int64(b.w.spec.hold) + 1)))
	}
	call := b.w.hist.begin(&Call{Client: b.name, Op: opUnlock, Key: key, Limit: int64(bareLease)})
	b.giveBack(key, owner)
	b.w.hist.end(call, resultOK)
}

// take asks until it has the lock; false when the round is over.
func (b *Bare) take(key, owner string) bool {
	for !b.w.over() {
		call := b.w.hist.begin(&Call{Client: b.name, Op: opLock, Key: key,
			Limit: int64(time.Second)})
		reply, err := b.do("EVAL", b.create, 1, key, b.lease.Milliseconds(), owner,
			time.Now().Add(2*time.Second).UnixMilli())
		// The clock, unless somebody has it or it came too late
		if _, taken := reply.(int64); err == nil && taken {
			b.w.hist.end(call, resultOK)
			return true
		}
		b.w.hist.end(call, resultBusy)
		sleepMillis(20)
	}
	return false
}
