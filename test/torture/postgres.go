// Copyright (c) 2026, lockredis contributors

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A Postgres is a server with lockredis.
type Postgres struct {
	name  string
	dir   string
	shim  string
	clock *ShiftedClock
	power *Power

	standby int32 // it may not write
	starts  int
	enter   func(...string) []string // a command for the server's network
	log     *os.File
	mark    int64 // where the log was read up to

	mu   sync.Mutex // one fault at a time
	proc *Process
}

const settingsOfServer = `
listen_addresses = ''
shared_preload_libraries = 'lockredis'
restart_after_crash = on
max_connections = 60
shared_buffers = 16MB
# The operating system lives on: what was written is there after a kill.
fsync = off
autovacuum = off
log_min_messages = warning
log_line_prefix = '%m [%p] %e '
log_timezone = 'UTC'
deadlock_timeout = 500ms
# Its wall clock jumps.
wal_sender_timeout = 0
wal_receiver_timeout = 0
`

// What loses its power has to sync, and checkpoints are to be among what it loses.
const settingsWithPower = `
fsync = on
wal_sync_method = fdatasync
checkpoint_timeout = 30s
min_wal_size = 2MB
max_wal_size = 8MB
`

func newPostgres(name, dir, settings string, o Options, enter func(...string) []string) (*Postgres, error) {
	p := &Postgres{name: name, dir: dir, shim: o.shim, enter: enter}

	err := os.MkdirAll(dir, 0o700)
	if err != nil {
		return nil, err
	}
	if p.clock, err = newShiftedClock(filepath.Join(dir, "clock")); err != nil {
		return nil, err
	}
	if err := run("initdb", "-D", p.data(), "-U", "torture", "-A", "trust",
		"--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=1"); err != nil {
		return nil, err
	}
	if p.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	conf, err := os.OpenFile(filepath.Join(p.data(), "postgresql.conf"),
		os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	conf.WriteString(settingsOfServer)
	fmt.Fprintf(conf, "unix_socket_directories = '%s'\n", dir)
	conf.WriteString(settings)
	if o.powercut != "" {
		conf.WriteString(settingsWithPower)
	}
	if err := conf.Close(); err != nil {
		return nil, err
	}
	if o.powercut != "" {
		if p.power, err = newPower(o.powercut, p.data(), "pg_wal"); err != nil {
			return nil, err
		}
	}
	if err := p.start(); err != nil {
		return nil, err
	}
	_, err = p.query(`CREATE EXTENSION lockredis;
		CREATE TABLE guarded (key text PRIMARY KEY, value bigint NOT NULL);
		CREATE TABLE guarded_log (id bigserial, key text, value bigint, token bigint, tag text);
		CREATE INDEX ON guarded_log (key)`)
	return p, err
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

func (p *Postgres) start() error {
	p.starts++
	command := []string{"postgres", "-D", p.data()}
	if p.enter != nil {
		command = p.enter(command...)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), p.power.environment(p.clock.environment(p.shim))...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	var err error
	if p.proc, err = startProcess(cmd); err != nil {
		return err
	}
	return p.waitUntilUp(30 * time.Second)
}

func (p *Postgres) restart(stop syscall.Signal) error {
	p.proc.signal(stop)
	if !p.proc.wait(20 * time.Second) {
		return fmt.Errorf("%s does not stop", p.name)
	}
	return p.start()
}

func (p *Postgres) waitUntilUp(limit time.Duration) error {
	var err error

	for end := time.Now().Add(limit); time.Now().Before(end); sleepMillis(50) {
		if p.proc.ended() {
			return fmt.Errorf("%s has ended, see %s", p.name, p.log.Name())
		}
		if _, err = p.query("SELECT 1"); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s does not answer: %v", p.name, err)
}

func (p *Postgres) config(settings map[string]string) (*pgconn.Config, error) {
	config, err := pgconn.ParseConfig(fmt.Sprintf(
		"host=%s port=5432 user=torture dbname=postgres sslmode=disable connect_timeout=20",
		p.dir))
	if err != nil {
		return nil, err
	}
	for name, value := range settings {
		config.RuntimeParams[name] = value
	}
	return config, nil
}

// query runs a command over a connection of its own.
func (p *Postgres) query(sql string) ([][]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	config, err := p.config(map[string]string{"application_name": "torture control"})
	if err != nil {
		return nil, err
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	return textRows(results), nil
}

// textRows are the rows of the last result; the library shows NULL as ”.
func textRows(results []*pgconn.Result) [][]string {
	var rows [][]string

	if len(results) == 0 {
		return nil
	}
	for _, row := range results[len(results)-1].Rows {
		var words []string
		for _, value := range row {
			words = append(words, string(value))
		}
		rows = append(rows, words)
	}
	return rows
}

// set changes settings of the server, and returns when they are in effect.
func (p *Postgres) set(settings map[string]string) error {
	before, err := p.query("SELECT pg_conf_load_time()")
	if err != nil {
		return err
	}
	for name, value := range settings {
		known, err := p.query("SELECT 1 FROM pg_settings WHERE name = '" + name + "'")
		if err != nil {
			return err
		}
		if len(known) == 0 {
			continue
		}
		if _, err := p.query(fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", name, value)); err != nil {
			return err
		}
	}
	if _, err = p.query("SELECT pg_reload_conf()"); err != nil {
		return err
	}
	for tries := 0; tries < 200; tries++ {
		after, err := p.query("SELECT pg_conf_load_time()")
		if err == nil && after[0][0] != before[0][0] {
			return nil
		}
		sleepMillis(25)
	}
	return fmt.Errorf("%s does not take up its settings", p.name)
}

// children are the processes of the server by what they are, as it shows them:
// "checkpointer", "lockredis watchdog", "torture postgres [local] idle" ...
func (p *Postgres) children() map[int]string {
	all := map[int]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")

	for _, stat := range stats {
		data, err := os.ReadFile(stat)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(p.proc.pid()) {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(stat, "/")[2])
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil {
			all[pid] = strings.Trim(strings.ReplaceAll(string(line), "\x00", " "), " ")
		}
	}
	return all
}

// child is the process id of the one that shows this, 0 when there is none.
func (p *Postgres) child(shows string) int {
	for pid, title := range p.children() {
		if strings.Contains(title, shows) {
			return pid
		}
	}
	return 0
}

func (p *Postgres) watchdog() int { return p.child("lockredis watchdog") }

func (p *Postgres) tableWorker() int { return p.child("lockredis table worker") }

// terminate ends a worker; the caller holds p.mu.
func (p *Postgres) terminate(worker int) {
	signalBackend(worker, syscall.SIGTERM)
	awaitEnd(map[int]string{worker: ""}, 5*time.Second)
}

// killAll ends the whole server with SIGKILL, as a crash of the machine would,
// only that other servers go on.
func (p *Postgres) killAll() {
	children := p.children()

	p.proc.signal(syscall.SIGSTOP)
	for pid := range p.children() {
		children[pid] = ""
	}
	p.proc.kill()
	for pid := range children {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	awaitEnd(children, 10*time.Second)
}

// awaitEnd waits until none of these server processes is left.
func awaitEnd(children map[int]string, limit time.Duration) {
	for end := time.Now().Add(limit); time.Now().Before(end); sleepMillis(10) {
		left := false
		for pid := range children {
			left = left || isPostgres(pid)
		}
		if !left {
			return
		}
	}
}

// crash: killed, and what was not synced is lost if it loses its power by that.
func (p *Postgres) crash() error {
	p.killAll()
	return p.power.cut()
}

// isPostgres: whether this process lives and is a server process.
func isPostgres(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))

	if err != nil || !bytes.Contains(data, []byte("(postgres)")) {
		return false
	}
	return !bytes.Contains(data, []byte(") Z "))
}

// signalBackend does nothing when the process is gone.
func signalBackend(pid int, sig syscall.Signal) {
	if pid > 0 && isPostgres(pid) {
		syscall.Kill(pid, sig)
	}
}

func (p *Postgres) stop() {
	if p.proc == nil || p.proc.ended() {
		return
	}
	for pid := range p.children() {
		signalBackend(pid, syscall.SIGCONT)
	}
	p.proc.signal(syscall.SIGCONT)
	p.proc.signal(syscall.SIGINT)
	if !p.proc.wait(20 * time.Second) {
		p.proc.signal(syscall.SIGQUIT)
		if !p.proc.wait(10 * time.Second) {
			p.killAll()
		}
	}
}

var badLogLine = regexp.MustCompile(
	`PANIC:|TRAP:|stuck spinlock|was terminated by signal (4|6|7|8|11)\b| XX...? ` +
		`|corrupt|leaked|refcount|WARNING:  you don't own a lock`)

// How PostgreSQL ends when there is no room for its WAL, and what it says when its power
// is cut while it recovers
var powerLogLine = regexp.MustCompile(`No space left on device|was terminated by signal 6\b|` +
	`This probably means that some data is corrupted`)

// endedTwice is logged by a backend that was ending, and had closed its connection, when
// all server processes were terminated: it cannot send the reason to its client any more.
const endedTwice = "LOG:  could not send data to client: Bad file descriptor"

// badLog are lines of the server log since the last call that must not be there.
func (p *Postgres) badLog() []string {
	data, err := os.ReadFile(p.log.Name())
	if err != nil {
		return []string{err.Error()}
	}
	var bad []string
	fresh := data[p.mark:]
	p.mark = int64(len(data))
	for _, line := range strings.Split(string(fresh), "\n") {
		if p.power != nil && powerLogLine.MatchString(line) {
			continue
		}
		if badLogLine.MatchString(line) && !strings.Contains(line, endedTwice) {
			bad = append(bad, line)
		}
	}
	return bad
}
