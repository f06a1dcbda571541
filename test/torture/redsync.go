// Copyright (c) 2026, lockredis contributors

package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A Redsync is a process with the real thing, one client with a pool for each master,
// behind the line protocol of test/interop/tokens.
type Redsync struct {
	name string
	proc *Process
	in   io.WriteCloser
	out  *bufio.Reader
	rng  *rand.Rand
	w    *Round
}

func newRedsync(w *Round, name string, seed int64) (*Redsync, error) {
	var ports []string
	for _, link := range w.env.masters.bare {
		ports = append(ports, link.address()[strings.LastIndex(link.address(), ":")+1:])
	}
	c := &Redsync{name: name, w: w, rng: rand.New(rand.NewSource(seed))}
	cmd := exec.Command(w.env.options.redsync, ports...)
	log, err := os.OpenFile(filepath.Join(w.env.options.dir, "redsync.log"),
		os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stderr = log
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.proc = &Process{cmd, make(chan struct{})}
	return c, nil
}

// ask: its answer, "ok" with a word, "no", or "error" with many.
func (c *Redsync) ask(words ...string) (string, string) {
	fmt.Fprintln(c.in, strings.Join(words, " "))
	line, err := c.out.ReadString('\n')
	if err != nil {
		return "error", err.Error()
	}
	verdict, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	return verdict, rest
}

func (c *Redsync) run() {
	for !c.w.over() {
		c.step(c.w.keys[c.rng.Intn(len(c.w.keys))])
		time.Sleep(time.Duration(c.rng.Int63n(int64(c.w.spec.think) + 1)))
	}
	c.in.Close()
	c.proc.cmd.Wait()
	close(c.proc.done)
}

// step is one lock and release.  What it did not get it may have at a few masters, until
// the lease ends: it repeats requests, and so may take back before it takes.
func (c *Redsync) step(key string) {
	lease := millis(c.w.spec.lease)
	lease = lease[:len(lease)-2]
	call := c.w.hist.begin(&Call{Client: c.name, Op: opLock, Key: key,
		Limit: int64(redissonLimit), Lingers: true})
	verdict, token := c.ask("take", key, "-", lease, fmt.Sprint(c.rng.Intn(1000)))
	switch verdict {
	case "no":
		c.w.hist.end(call, resultBusy)
		return
	case "error":
		c.w.hist.end(call, resultException)
		return
	}
	call.Lingers = false
	c.w.hist.end(call, resultOK)
	time.Sleep(time.Duration(c.rng.Int63n(int64(c.w.spec.hold) + 1)))
	call = c.w.hist.begin(&Call{Client: c.name, Op: opUnlock, Key: key,
		Limit: int64(redissonLimit)})
	verdict, _ = c.ask("release", key, token)
	call.Lingers = verdict != "ok"
	c.w.hist.end(call, resultOK)
}
