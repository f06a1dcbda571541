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

// A Redis is the server that everybody uses, behind proxies, or one of those that
// Sentinels watch.  It writes an append-only file before it answers, so that a crash
// alone loses nothing.
type Redis struct {
	dir     string
	socket  string
	clock   *ShiftedClock
	shim    string
	library string // powercut; "": a kill takes nothing
	power   *Power
	failed  error // to take what was not synced
	log     *os.File
	proc    *Process
	config  []string                 // further lines of its configuration
	port    int                      // 0: the socket alone
	tlsPort int                      // 0: none
	host    string                   // where others reach it
	enter   func(...string) []string // a command for its network; nil: ours

	age      time.Duration // so long it says that it has run when it is started
	sentinel bool
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
	r := &Redis{dir: dir, shim: shim}

	return r, r.begin()
}

// begin makes its directory and starts it.
func (r *Redis) begin() error {
	err := os.MkdirAll(r.dir, 0o700)
	if err != nil {
		return err
	}
	r.socket = filepath.Join(r.dir, "s")
	if r.clock, err = newShiftedClock(filepath.Join(r.dir, "clock")); err != nil {
		return err
	}
	if r.log, err = os.Create(filepath.Join(r.dir, "log")); err != nil {
		return err
	}
	if err = os.Mkdir(r.data(), 0o700); err != nil {
		return err
	}
	if r.library != "" {
		if r.power, err = newPower(r.library, r.data(), ""); err != nil {
			return err
		}
	}
	return r.start()
}

func (r *Redis) data() string { return filepath.Join(r.dir, "data") }

// redisProgram is redis-server, or what the environment names instead.
func redisProgram() []string {
	if program := os.Getenv("LOCKREDIS_TEST_REDIS"); program != "" {
		return strings.Fields(program)
	}
	return []string{"redis-server"}
}

// writeConfig: what Sentinel and CONFIG REWRITE add to the file stays there.
func (r *Redis) writeConfig(file string) error {
	program := redisProgram()

	lines := []string{fmt.Sprintf("port %d", r.port), "unixsocket " + r.socket,
		"dir " + r.data(), "save \"\"", "appendonly yes", "appendfsync always",
		"repl-diskless-sync yes", "daemonize no"}
	version, err := exec.Command(program[0], append(program[1:], "--version")...).Output()
	if err != nil {
		return fmt.Errorf("%s: %w", program[0], err)
	}
	// From 7.0 on DEBUG has to be allowed; before, the option is unknown.
	if !strings.Contains(string(version), "v=6.") {
		lines = append(lines, "enable-debug-command yes")
	}
	if r.host != "" {
		lines = append(lines, "bind "+r.host, "protected-mode no")
	}
	lines = append(lines, r.config...)
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

func (r *Redis) start() error {
	file := filepath.Join(r.dir, "conf")

	if _, err := os.Stat(file); err != nil {
		if err := r.writeConfig(file); err != nil {
			return err
		}
	}
	command := append(redisProgram(), file)
	if r.sentinel {
		command = append(command, "--sentinel")
	}
	if r.enter != nil {
		command = r.enter(command...)
	}
	cmd := exec.Command(command[0], command[1:]...)
	if r.failed != nil {
		return r.failed
	}
	cmd.Env = append(os.Environ(), r.power.environment(r.clock.environment(r.shim))...)
	cmd.Stdout, cmd.Stderr = r.log, r.log
	os.Remove(r.socket)
	var err error
	if r.age != 0 {
		r.clock.shift(-r.age)
	}
	if r.proc, err = startProcess(cmd); err != nil {
		return err
	}
	err = r.waitUntilUp(20 * time.Second)
	if r.age != 0 {
		r.clock.shift(0)
	}
	if err != nil || !r.sentinel {
		return err
	}
	// From 7.0 on: it looks at the replicas each second instead of each tenth, and
	// turns an old master round 2 s after its return.
	r.cmd("SENTINEL", "DEBUG", "INFO-PERIOD", 1000, "PUBLISH-PERIOD", 500)
	return nil
}

// address is where others reach it: by TLS where it has a port for that.
func (r *Redis) address() string {
	if r.tlsPort != 0 {
		return fmt.Sprintf("%s:%d", r.host, r.tlsPort)
	}
	return fmt.Sprintf("%s:%d", r.host, r.port)
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
	return r.cmdWithin(10*time.Second, words...)
}

func (r *Redis) cmdWithin(limit time.Duration, words ...interface{}) (interface{}, error) {
	c, err := dialRedis("unix", r.socket, limit)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.do(words...)
}

// crash: killed, and what was not synced is lost if it loses its power by that.
func (r *Redis) crash() {
	r.proc.kill()
	r.failed = r.power.cut()
}

func (r *Redis) forget() error {
	if err := os.RemoveAll(r.data()); err != nil {
		return err
	}
	if err := os.Mkdir(r.data(), 0o700); err != nil {
		return err
	}
	return r.power.synced()
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
