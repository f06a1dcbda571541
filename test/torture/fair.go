// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"strings"
	"time"
)

// fairKind: the lock is the reentrant one, and those who wait get it in the order in
// which they came.
var fairKind = &Kind{
	name:   "fair",
	prefix: true,
	bare:   true,
	mode:   onlyAlone,
	alone:  modeAlone,
	choose: chooseFair,
	work: []weighted{
		{6, workSession},
		{4, workTransaction},
		{2, workReentrant},
		{1, workMixed},
		{2, workSavepoint},
		{2, workTwoKeys},
		{1, workExtend},
		{1, workUnlockAll},
		{1, workVanish},
	},
	redisson: (*RedissonThread).stepFair,
	watch:    (*Round).watchQueues,
	sweep:    (*Round).sweepQueues,
	specs:    []func() Spec{orphansSpec, hotSpec, exclusionSpec, calmSpec},
}

// chooseFair: who has it takes it again either way.  A plain lock does not stand in the
// queue, and Redisson's fair one does not tell those who wait for a plain one: so these
// only try.
func chooseFair(s *Session, at slot, a *want) {
	a.fair = s.chance(0.9)
	if !a.fair && s.holds[at] == nil {
		a.try, a.wait = true, 0
	}
}

// stepFair is one lock and release by Redisson.
func (t *RedissonThread) stepFair(key string) {
	wait := t.rng.Intn(3000)
	if t.owner == "" {
		var err error
		if t.owner, err = t.j.call(redissonLimit, t.target, "owner", key); err != nil {
			return
		}
	}
	call := t.w.hist.begin(&Call{Client: t.name, Op: opLock, Key: key, Fair: true,
		Owner: t.owner, Queues: wait > 0, Limit: int64(redissonLimit)})
	answer, err := t.j.call(redissonLimit, t.target, "fair.tryLock", key, fmt.Sprint(wait), "-1")
	t.had("fair.", call, answer, err)
	for tries := 0; err != nil && tries < 20; tries++ {
		// It has its place in the queue even so, for five minutes.
		answer, err = t.j.call(redissonLimit, t.target, "fair.tryLock", key, "0", "-1")
		if answer == "true" {
			t.giveBack("fair.", key)
		}
		sleepMillis(200)
	}
}

// A Queue is who stood in the queue of a key, in order, at some moment of this time.
type Queue struct {
	Key    string
	From   int64
	To     int64
	Owners []string
}

func (q *Queue) has(owner string) bool {
	for _, o := range q.Owners {
		if o == owner {
			return true
		}
	}
	return false
}

// watchQueues looks at the queues again and again.
func (r *Round) watchQueues() {
	for !r.over() {
		for _, key := range r.keys {
			r.look(key)
		}
		sleepMillis(15)
	}
}

func (r *Round) look(key string) {
	for _, store := range r.env.stores() {
		q := Queue{Key: key, From: now()}
		reply, err := store.cmdWithin(time.Second, "LRANGE", "redisson_lock_queue:{"+key+"}", 0, -1)
		if err != nil {
			return
		}
		q.To = now()
		if owners, ok := reply.([]interface{}); ok {
			for _, owner := range owners {
				q.Owners = append(q.Owners, fmt.Sprint(owner))
			}
		}
		r.hist.addQueue(q)
	}
}

// sweepQueues: the places of a server that has crashed stay until somebody asks for the
// lock when they have ended, as the queue itself does not end.
func (r *Round) sweepQueues() {
	for end := time.Now().Add(r.spec.lease + recovery); time.Now().Before(end); sleepMillis(200) {
		left := false
		for _, key := range r.keys {
			for _, store := range r.env.stores() {
				n, err := store.cmd("EXISTS", "redisson_lock_queue:{"+key+"}")
				if err == nil && n == int64(0) {
					continue
				}
				left = true
				r.env.primary().query("SELECT CASE WHEN redis_try_fair_lock('" + key +
					"') THEN redis_unlock('" + key + "') END")
			}
		}
		if !left {
			return
		}
	}
}

// checkOrder: nobody is granted a fair lock that he asked for when somebody else stood
// in its queue, as long as that one stands there.  Who loses his place, for which there
// are reasons, comes again under another name, except for Redisson's threads: so it
// has to be seen in the queue all the time.  A plain lock may pass.
func checkOrder(calls []Call, queues []Queue) []Finding {
	var found []Finding

	looks := map[string][]Queue{}
	for _, q := range queues {
		looks[q.Key] = append(looks[q.Key], q)
	}
	keys := byKey(calls)
	for _, key := range sortedKeys(keys) {
		var granted []*Call

		for i := range keys[key] {
			c := &keys[key][i]
			if c.Op == opLock && c.Fair && c.Owner != "" && c.Result == resultOK {
				granted = append(granted, c)
			}
		}
		for _, a := range granted {
			var first, last *Queue

			for i := range looks[key] {
				q := &looks[key][i]
				if q.From < a.Start || q.To > a.End {
					continue
				}
				if !q.has(a.Owner) {
					found = append(found, overtakers(a, granted, first, last)...)
					first, last = nil, nil
					continue
				}
				if first == nil {
					first = q
				}
				last = q
			}
			found = append(found, overtakers(a, granted, first, last)...)
		}
	}
	return found
}

// overtakers are those who came after a was seen in the queue, and were granted before
// it was seen there last.
func overtakers(a *Call, granted []*Call, first, last *Queue) []Finding {
	var found []Finding

	if first == nil {
		return nil
	}
	for _, b := range granted {
		if b.Client == a.Client || b.Start <= first.To || b.End >= last.From ||
			first.has(b.Owner) {
			continue
		}
		found = append(found, Finding{"order", fmt.Sprintf(
			"%s asked for %s at %.6f s and had it at %.6f s, though %s (%s) was in the queue "+
				"from %.6f to %.6f s: %s", b.Client, a.Key, seconds(b.Start), seconds(b.End),
			a.Client, a.Owner, seconds(first.To), seconds(last.From),
			strings.Join(last.Owners, " "))})
	}
	return found
}
