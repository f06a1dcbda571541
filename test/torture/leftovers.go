// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// After a cut of the network the end of a connection arrives late: the kernel
// repeats it at intervals that grow with the cut, or a keepalive finds it out.  And
// Redisson connects anew after pauses of up to redissonReconnects, subscribes to what it
// had before, and only then gives up what nobody waits for any more.
const lateGoodbye = 10 * time.Second

// checkLeftovers: when all clients have gone and no fault is on, within this time
// there is no lock in Redis, no hold, wait or orphan on any server, no
// subscription, and no connection but those of the watchdogs.
func (e *Environment) checkLeftovers(limit time.Duration) []Finding {
	var left []string

	for start := time.Now(); ; sleepMillis(200) {
		left = e.leftovers()
		patience := limit
		if len(left) == 0 {
			left = e.connectionsLeft()
			patience += lateGoodbye
		}
		if len(left) == 0 {
			return nil
		}
		if time.Since(start) > patience {
			limit = patience
			break
		}
	}
	return []Finding{{"leftovers", fmt.Sprintf("after %.0f s there is still: %s",
		limit.Seconds(), strings.Join(left, "; "))}}
}

// What lockredis and Redisson leave on purpose
func staysInRedis(key string) bool {
	return strings.HasPrefix(key, "redisson_lock_token:") ||
		strings.HasPrefix(key, "redisson_unlock_latch:")
}

// A lock of the bare client, which asks each master once: a release that the next one
// has not heard of ends with the lock's time to live.
func isOfBare(hash interface{}) bool {
	fields, ok := hash.([]interface{})
	if !ok || len(fields) == 0 {
		return false
	}
	owner, ok := fields[0].(string)
	return ok && strings.HasPrefix(owner, "torture:")
}

func (e *Environment) leftovers() []string {
	var left []string

	for _, node := range e.nodes {
		rows, err := node.query("SELECT l FROM redis_locks l")
		if err != nil {
			left = append(left, node.name+": "+err.Error())
		}
		for _, row := range rows {
			left = append(left, "redis_locks of "+node.name+": "+row[0])
		}
		rows, err = node.query("SELECT a FROM (SELECT pid, application_name, state, " +
			"wait_event_type, wait_event, query_start, query FROM pg_stat_activity " +
			"WHERE backend_type = 'client backend' AND application_name <> 'torture control') a")
		if err != nil {
			left = append(left, node.name+": "+err.Error())
		}
		for _, row := range rows {
			left = append(left, "session of "+node.name+": "+row[0])
		}
	}
	for _, store := range e.stores() {
		left = append(left, e.leftIn(store)...)
	}
	if e.hasRows() {
		left = append(left, e.rowsLeft()...)
	}
	return left
}

// waitForOwed waits until no server has to repeat a count that was not answered: without its
// ticket, a repeated one would count twice.
func (e *Environment) waitForOwed(patience time.Duration) {
	for _, node := range e.nodes {
		for end := time.Now().Add(patience); time.Now().Before(end); sleepMillis(200) {
			rows, err := node.query("SELECT l FROM redis_locks l")
			if err == nil && len(rows) == 0 {
				break
			}
		}
	}
}

func (e *Environment) leftIn(store *Redis) []string {
	var left []string

	whose := ""
	if e.masters != nil {
		whose = filepath.Base(store.dir) + ": "
	}
	reply, err := store.cmd("KEYS", "*")
	if err != nil {
		return append(left, whose+"Redis: "+err.Error())
	}
	for _, key := range reply.([]interface{}) {
		if !staysInRedis(key.(string)) {
			ttl, _ := store.cmd("PTTL", key)
			what, err := store.cmd("HGETALL", key)
			if e.sentinels != nil && isOfBare(what) {
				continue
			}
			if err != nil {
				what, _ = store.cmd("GET", key)
			}
			left = append(left, fmt.Sprintf("%skey %v: %v, TTL %v ms", whose, key, what, ttl))
		}
	}
	// Redisson's are looked for with its connections.
	if subscriptions, ours := subscriptionsOf(store); ours {
		left = append(left, whose+strings.Join(subscriptions, ", "))
	}
	return left
}

// subscriptionsOf returns the channels of locks that somebody listens to, and who that may be;
// and whether lockredis does.
func subscriptionsOf(store *Redis) (left []string, ours bool) {
	for _, of := range []string{"redisson_*", "lockredis_*"} {
		if reply, err := store.cmd("PUBSUB", "CHANNELS", of); err == nil {
			for _, channel := range reply.([]interface{}) {
				left = append(left, fmt.Sprintf("subscription of %v", channel))
			}
		}
	}
	if len(left) == 0 {
		return nil, false
	}
	reply, err := store.cmd("CLIENT", "LIST", "TYPE", "pubsub")
	if err != nil {
		return left, true
	}
	for _, client := range strings.Split(strings.TrimSpace(reply.(string)), "\n") {
		left = append(left, "by "+client)
		ours = ours || strings.Contains(client, " name=lockredis-")
	}
	return left, ours
}

// Two for each watchdog may stay; and one for what replicas have to confirm, or that
// asks an independent master whether it is there.  A subscription may not.
func (e *Environment) connectionsLeft() []string {
	each := 2
	if e.sentinels != nil || e.masters != nil {
		each = 3
	}
	for _, store := range e.stores() {
		if left, _ := subscriptionsOf(store); len(left) > 0 {
			return left
		}
		ids, err := store.clients()
		if err != nil || len(ids) > each*len(e.nodes) {
			return []string{fmt.Sprintf("%d connections of lockredis %v", len(ids), err)}
		}
	}
	return nil
}

// clear takes away what a finding or a negative control has left, so that it is
// not found again.
func (e *Environment) clear() {
	for _, store := range e.stores() {
		store.cmd("FLUSHALL")
	}
	if e.hasRows() {
		e.primary().query("DELETE FROM redis_lock_rows; DELETE FROM redis_lock_shares")
	}
	for _, node := range e.nodes {
		node.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity " +
			"WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); sleepMillis(200) {
		if len(e.leftovers()) == 0 {
			return
		}
	}
}
