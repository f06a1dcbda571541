// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A Redis is the server that everybody uses, behind proxies.  It writes an
// append-only file before it answers, so that a crash alone loses nothing.
type Redis struct {
	dir    string
	socket string
	clock  *ShiftedClock
	shim   string
	log    *os.File
	proc   *Process
}

// A Process is a server that we have started.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func startProcess(cmd *exec.Cmd) (*Process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd, make(chan struct{})}
	go func() {
		cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *Process) pid() int { return p.cmd.Process.Pid }

func (p *Process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *Process) signal(sig syscall.Signal) {
	if !p.ended() {
		p.cmd.Process.Signal(sig)
	}
}

// wait returns whether the process has ended in time.
func (p *Process) wait(limit time.Duration) bool {
	select {
	case <-p.done:
		return true
	case <-time.After(limit):
		return false
	}
}

func (p *Process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func newRedis(dir, shim string) (*Redis, error) {
	r := &Redis{dir: dir, socket: filepath.Join(dir, "s"), shim: shim}

	err := os.MkdirAll(dir, 0o700)
	if err != nil {
		return nil, err
	}
	if r.clock, err = newShiftedClock(filepath.Join(dir, "clock")); err != nil {
		return nil, err
	}
	r.log, err = os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	return r, r.start()
}

func (r *Redis) start() error {
	args := []string{"--port", "0", "--unixsocket", r.socket, "--dir", r.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always",
		"--repl-diskless-sync", "yes", "--daemonize", "no"}
	version, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return fmt.Errorf("redis-server: %w", err)
	}
	// From 7.0 on DEBUG has to be allowed; before, the option is unknown.
	if !strings.Contains(string(version), "v=6.") {
		args = append(args, "--enable-debug-command", "yes")
	}
	cmd := exec.Command("redis-server", args...)
	cmd.Env = append(os.Environ(), r.clock.environment(r.shim)...)
	cmd.Stdout, cmd.Stderr = r.log, r.log
	os.Remove(r.socket)
	if r.proc, err = startProcess(cmd); err != nil {
		return err
	}
	return r.waitUntilUp(20 * time.Second)
}

func (r *Redis) waitUntilUp(limit time.Duration) error {
	var err error

	for end := time.Now().Add(limit); time.Now().Before(end); sleepMillis(20) {
		if r.proc.ended() {
			return fmt.Errorf("Redis has ended, see %s", r.log.Name())
		}
		if _, err = r.cmd("PING"); err == nil {
			return nil
		}
	}
	return fmt.Errorf("Redis does not answer: %v", err)
}

// cmd runs a command past all proxies.
func (r *Redis) cmd(words ...interface{}) (interface{}, error) {
	c, err := dialRedis("unix", r.socket, 10*time.Second)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.do(words...)
}

func (r *Redis) crash() { r.proc.kill() }

func (r *Redis) forget() error {
	if err := os.RemoveAll(filepath.Join(r.dir, "appendonlydir")); err != nil {
		return err
	}
	for _, name := range []string{"dump.rdb", "appendonly.aof"} {
		if err := os.RemoveAll(filepath.Join(r.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// clients are the ids of the connections of lockredis.
func (r *Redis) clients() (ids []string, err error) {
	reply, err := r.cmd("CLIENT", "LIST")
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(reply.(string), "\n") {
		if !strings.Contains(line, " name=lockredis-") {
			continue
		}
		ids = append(ids, strings.TrimPrefix(strings.Fields(line)[0], "id="))
	}
	return ids, nil
}

func (r *Redis) stop() {
	if r.proc == nil || r.proc.ended() {
		return
	}
	r.proc.signal(syscall.SIGCONT)
	r.proc.signal(syscall.SIGTERM)
	if !r.proc.wait(5 * time.Second) {
		r.proc.kill()
	}
}
