// Copyright (c) 2026, lockredis contributors

// Redsync as a service would use it, behind the line protocol of
// test/bench/client.h.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const (
	boardKeys     = 1024
	sequenceSize  = 65536
	sequenceStart = 16384
	boardSize     = sequenceStart + 4*sequenceSize
)

// board is the memory that all clients share: what locks protect.
type board struct {
	counter    [boardKeys]int64
	releasedAt int64
	releaser   int64
}

var (
	shared   *board
	sequence []int32
	services = map[string]*redsync.Redsync{}
)

// Go's own monotonic clock is CLOCK_MONOTONIC, but counts from the start of the
// program.
var (
	origin   = time.Now()
	originNs = monotonic()
)

func monotonic() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic,
		uintptr(unsafe.Pointer(&ts)), 0); err != 0 {
		panic(err)
	}
	return ts.Nano()
}

func now() int64 {
	return originNs + int64(time.Since(origin))
}

// histogram counts durations in 16 steps for each power of two.
type histogram map[int]int

func (h histogram) add(ns int64) {
	if ns < 16 {
		ns = 16
	}
	e := 63
	for ns>>e == 0 {
		e--
	}
	h[e*16+int(ns>>(e-4)&15)]++
}

func (h histogram) merge(other histogram) {
	for i, n := range other {
		h[i] += n
	}
}

func (h histogram) String() string {
	if len(h) == 0 {
		return "-"
	}
	steps := make([]int, 0, len(h))
	for i := range h {
		steps = append(steps, i)
	}
	sort.Ints(steps)
	words := make([]string, len(steps))
	for n, i := range steps {
		words[n] = fmt.Sprintf("%d:%d", i, h[i])
	}
	return strings.Join(words, ",")
}

type request struct {
	ports        string
	clients      int
	separate     bool
	base         int64
	start, until int64
	prefix, mode string
	hold, pause  time.Duration
}

type result struct {
	pairs, steps, errors int
	lock, pair, wake     histogram
}

// service returns the one of these ports, with a pool for each, or one of its
// own for a client that stands for a separate server.
func service(r *request, client int) *redsync.Redsync {
	name := r.ports
	if r.separate {
		name = fmt.Sprintf("%s/%d", r.ports, client)
	}
	s := services[name]
	if s == nil {
		var pools []redsyncredis.Pool
		for _, port := range strings.Split(r.ports, ",") {
			pools = append(pools, goredis.NewPool(redis.NewClient(&redis.Options{
				Addr: "127.0.0.1:" + port,
			})))
		}
		s = redsync.New(pools...)
		services[name] = s
	}
	return s
}

func sleepUntil(at int64) {
	time.Sleep(time.Duration(at - now()))
}

func work(r *request, s *redsync.Redsync, client int, out *result) {
	number := int(r.base) + client
	key, name := number, r.prefix
	if r.mode == "hot" {
		key = 0
	} else if r.mode == "own" {
		name = fmt.Sprintf("%s:%d", r.prefix, key)
	}

	sleepUntil(r.start)
	for i, begin := number*4001, now(); out.steps == 0 || begin < r.until; i++ {
		if r.mode == "zipf" {
			key = int(sequence[i%sequenceSize])
			name = fmt.Sprintf("%s:%d", r.prefix, key)
		}

		mutex := s.NewMutex(name)
		for mutex.Lock() != nil {
			out.errors++
		}
		got := now()
		if r.mode == "hot" && shared.releaser != int64(number+1) && begin < shared.releasedAt {
			out.wake.add(got - shared.releasedAt)
		}
		out.lock.add(got - begin)
		value := shared.counter[key]
		if r.hold > 0 {
			time.Sleep(r.hold)
			shared.releaser = int64(number + 1)
			shared.releasedAt = now()
		}
		shared.counter[key] = value + 1
		if ok, err := mutex.Unlock(); !ok || err != nil {
			out.errors++
		}

		done := now()
		out.steps++
		if done <= r.until {
			out.pairs++
			out.pair.add(done - begin)
		}
		if r.pause > 0 {
			time.Sleep(r.pause)
			done = now()
		}
		begin = done
	}
}

func newResult() *result {
	return &result{lock: histogram{}, pair: histogram{}, wake: histogram{}}
}

func run(r *request) *result {
	var group sync.WaitGroup
	results := make([]*result, r.clients)
	for client := range results {
		results[client] = newResult()
		s := service(r, client)
		group.Add(1)
		go func(client int) {
			defer group.Done()
			work(r, s, client, results[client])
		}(client)
	}
	group.Wait()

	sum := newResult()
	for _, one := range results {
		sum.pairs += one.pairs
		sum.steps += one.steps
		sum.errors += one.errors
		sum.lock.merge(one.lock)
		sum.pair.merge(one.pair)
		sum.wake.merge(one.wake)
	}
	return sum
}

func number(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func parse(line string) *request {
	w := strings.Fields(line)
	if len(w) != 11 || w[0] != "run" {
		panic("unknown request: " + line)
	}
	return &request{
		ports:    w[1],
		clients:  int(number(w[2])),
		separate: w[3] == "separate",
		base:     number(w[4]),
		start:    number(w[5]),
		until:    number(w[6]),
		prefix:   w[7],
		mode:     w[8],
		hold:     time.Duration(number(w[9])) * time.Microsecond,
		pause:    time.Duration(number(w[10])) * time.Microsecond,
	}
}

func main() {
	file, err := os.OpenFile(os.Args[1], os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	memory, err := syscall.Mmap(int(file.Fd()), 0, boardSize,
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	shared = (*board)(unsafe.Pointer(&memory[0]))
	sequence = unsafe.Slice((*int32)(unsafe.Pointer(&memory[sequenceStart])), sequenceSize)

	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		r := run(parse(in.Text()))
		fmt.Println("ok", r.pairs, r.steps, r.errors, r.lock, r.pair, r.wake)
	}
}
