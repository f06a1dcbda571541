// Copyright (c) 2026, lockredis contributors

package main

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const clockMonotonic = 1

// now is CLOCK_MONOTONIC in nanoseconds: one clock for all processes of the
// machine, and for everything that a history says.
func now() int64 {
	var ts syscall.Timespec

	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic,
		uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

func seconds(ns int64) float64 {
	return float64(ns) / float64(time.Second)
}

func sleepMillis(ms int) {
	time.Sleep(time.Duration(ms) * time.Millisecond)
}

// A ShiftedClock is the wall clock of a server that runs with clockshift: a
// file mapped by its processes says by how much it is wrong.
type ShiftedClock struct {
	path   string
	offset *int64
}

func newShiftedClock(path string) (*ShiftedClock, error) {
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	mem, err := syscall.Mmap(int(f.Fd()), 0, 4096,
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &ShiftedClock{path: path, offset: (*int64)(unsafe.Pointer(&mem[0]))}, nil
}

func (c *ShiftedClock) shift(d time.Duration) {
	atomic.StoreInt64(c.offset, int64(d))
}

// environment for a program whose clock this is
func (c *ShiftedClock) environment(library string) []string {
	return []string{"LD_PRELOAD=" + library, "TORTURE_CLOCK=" + c.path}
}

// A StallMeter finds out for how long at most this process was not run: what
// the machine does to us it does to the servers too.
type StallMeter struct {
	worst int64
	stop  chan struct{}
}

func startStallMeter() *StallMeter {
	m := &StallMeter{stop: make(chan struct{})}

	go func() {
		last := now()
		for {
			select {
			case <-m.stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			t := now()
			if gap := t - last; gap > atomic.LoadInt64(&m.worst) {
				atomic.StoreInt64(&m.worst, gap)
			}
			last = t
		}
	}()
	return m
}

func (m *StallMeter) end() int64 {
	close(m.stop)
	return atomic.LoadInt64(&m.worst)
}
