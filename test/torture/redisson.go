// Copyright (c) 2026, lockredis contributors

package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Redisson is a Java process with the real thing, behind the line protocol of
// test/interop/redisson.
type Redisson struct {
	proc   *Process
	in     io.WriteCloser
	mu     sync.Mutex
	serial int
	wait   map[string]chan []string
}

func startRedisson(classPath, log string, options []string) (*Redisson, error) {
	j := &Redisson{wait: map[string]chan []string{}}
	options = append(options, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", classPath, "lockredis.interop.Driver")
	cmd := exec.Command("java", options...)

	errors, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = errors
	if j.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err = cmd.Start(); err != nil {
		return nil, err
	}
	j.proc = &Process{cmd, make(chan struct{})}
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			j.answer(lines.Text())
		}
		cmd.Wait()
		close(j.proc.done)
	}()
	return j, nil
}

// answer: "<id> ok|error <nanos> <word>..."
func (j *Redisson) answer(line string) {
	words := strings.Split(line, " ")

	for i := range words {
		if text, err := url.QueryUnescape(words[i]); err == nil {
			words[i] = text
		}
	}
	j.mu.Lock()
	waiter := j.wait[words[0]]
	delete(j.wait, words[0])
	j.mu.Unlock()
	if waiter != nil && len(words) > 2 {
		waiter <- words
	}
}

// call runs a command in a thread of a client, and returns its first word.
func (j *Redisson) call(limit time.Duration, words ...string) (string, error) {
	answer := make(chan []string, 1)

	for i := range words {
		words[i] = url.QueryEscape(words[i])
	}
	j.mu.Lock()
	j.serial++
	id := fmt.Sprint(j.serial)
	j.wait[id] = answer
	_, err := io.WriteString(j.in, id+" "+strings.Join(words, " ")+"\n")
	j.mu.Unlock()
	if err != nil {
		return "", err
	}
	select {
	case got := <-answer:
		rest := append(got[3:], "")
		if got[1] != "ok" {
			return "", fmt.Errorf("%s", strings.Join(rest, " "))
		}
		return rest[0], nil
	case <-j.proc.done:
		return "", fmt.Errorf("the Java process has ended")
	case <-time.After(limit):
		return "", fmt.Errorf("no answer of Redisson within %v", limit)
	}
}

func (j *Redisson) stop() {
	j.in.Close()
	if !j.proc.wait(2 * time.Second) {
		j.proc.kill()
	}
}

// A RedissonThread is a client of the round: one thread, which owns locks.
type RedissonThread struct {
	name   string // in histories
	target string // client and thread
	owner  string // in the store, when it is known
	j      *Redisson
	rng    *rand.Rand
	w      *Round
}

// What the names of its threads begin with, in histories.
const redissonPrefix = "redisson."

// How long Redisson itself may take to give up
const redissonLimit = 40 * time.Second

func (t *RedissonThread) run() {
	for !t.w.over() {
		t.w.spec.kind.redisson(t, t.w.keys[t.rng.Intn(len(t.w.keys))])
		time.Sleep(time.Duration(t.rng.Int63n(int64(t.w.spec.think) + 1)))
	}
}

// stepAlone is one lock and release, of a key that nobody else has.
func (t *RedissonThread) stepAlone(key string) {
	wait := t.rng.Intn(3000)
	fenced := t.rng.Intn(5) == 0
	call := t.w.hist.begin(&Call{Client: t.name, Op: opLock, Key: key,
		Queues: wait > 0 || fenced, Limit: int64(redissonLimit)})

	var answer string
	var err error
	if fenced {
		answer, err = t.j.call(redissonLimit, t.target, "fencedLock", key)
		call.Token, _ = strconv.ParseInt(answer, 10, 64)
		if err == nil {
			answer = "true"
		}
	} else {
		answer, err = t.j.call(redissonLimit, t.target, "tryLock", key, fmt.Sprint(wait), "-1")
	}
	t.had("", call, answer, err)
}

// had ends the call that has asked for a lock, and gives it back after a while.
// of is what the driver's commands of that kind begin with.
func (t *RedissonThread) had(of string, call *Call, answer string, err error) {
	if err != nil {
		// It repeats requests by itself, so it may have it even so.
		call.Lingers = true
		t.w.hist.end(call, resultException)
		t.giveBack(of, call.Key)
		return
	}
	if answer != "true" {
		t.w.hist.end(call, resultBusy)
		return
	}
	t.w.hist.end(call, resultOK)
	time.Sleep(time.Duration(t.rng.Int63n(int64(t.w.spec.hold) + 1)))

	drop := t.w.hist.begin(&Call{Client: t.name, Op: opDrop, Key: call.Key,
		Mode: call.Mode})
	drop.Lingers = !t.giveBack(of, call.Key)
	t.w.hist.end(drop, resultOK)
}

// giveBack unlocks until nothing is held; true if one call was enough.
func (t *RedissonThread) giveBack(of, key string) bool {
	clean := true

	for tries := 0; tries < 20; tries++ {
		held, err := t.j.call(redissonLimit, t.target, of+"isHeld", key)
		if err == nil && held != "true" {
			return clean
		}
		if err == nil {
			_, err = t.j.call(redissonLimit, t.target, of+"unlock", key)
		}
		if err != nil {
			clean = false
			sleepMillis(200)
		}
	}
	return false
}
