// Copyright (c) 2026, lockredis contributors

// Torture attacks lockredis: many clients, real servers, random faults, and
// checkers that judge what was recorded.  See README.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	var o Options
	limit := flag.Duration("time", 30*time.Minute, "how long to begin new rounds")
	seed := flag.Int64("seed", 0, "of the first round (0: by the time)")
	only := flag.Int("round", 0, "only this round of the seed")
	rounds := flag.Int("rounds", 0, "no more than so many (0: any number)")
	length := flag.Duration("length", 14*time.Second, "of a round")
	selftest := flag.Bool("self-test", false, "only the negative controls")
	small := flag.Bool("small", false, "a short self-test, then short rounds")
	kinds := flag.String("kind", "", "only rounds of these kinds of lock")
	flag.StringVar(&o.dir, "dir", "", "directory of this run")
	flag.StringVar(&o.shim, "shim", "", "clockshift")
	powercut := flag.String("powercut", "", "the library of that name")
	power := flag.Bool("power", false, "who is killed loses power: only what was synced is there")
	flag.StringVar(&o.lua, "lua", "", "directory of the extension's scripts")
	flag.StringVar(&o.redisson, "redisson", "", "class path of Redisson's driver")
	flag.StringVar(&o.redsync, "redsync", "", "redsync's driver")
	flag.StringVar(&o.topology, "topology", "one",
		"one: a Redis; sentinel: Sentinels; masters: independent ones; table: none;\n"+
			"fallback: one that is away at times;\n"+
			"standby, standby-table: a standby is promoted; copy: a base backup runs, too")
	flag.BoolVar(&o.keep, "keep", false, "histories, also without a finding")
	tls := flag.Bool("tls", false, "lockredis encrypts its connections")
	flag.BoolVar(&o.namespace, "namespaces", false, "network namespaces can be made")
	flag.Parse()
	if *power {
		o.powercut = *powercut
	}

	if *seed == 0 {
		*seed = time.Now().Unix() % 1000000
	}
	v := newVerdict()
	var err error
	if *tls {
		o.tls, err = newAuthority(o.dir)
	}
	if err == nil {
		o.kinds, err = kindsOf(o.topology, *kinds)
	}
	if err == nil {
		err = torture(o, v, *seed, *only, *rounds, *limit, *length, *selftest, *small)
	}
	if err != nil {
		v.found = append(v.found, Finding{"rig", err.Error()})
		fmt.Println("FOUND " + v.found[len(v.found)-1].String())
	}
	if len(v.faults) > 0 {
		fmt.Println("faults: " + counts(v.faults))
	}
	if len(v.errors) > 0 {
		fmt.Println("acquires that ended with an error: " + counts(v.errors))
	}
	for _, note := range v.notes {
		fmt.Println("note: " + note)
	}
	line := fmt.Sprintf("%s (seed %d)", v.line(), *seed)
	fmt.Println(line)
	os.WriteFile(filepath.Join(o.dir, "verdict"), []byte(line+"\n"), 0o600)
	if len(v.found) > 0 {
		os.Exit(1)
	}
}

func torture(o Options, v *Verdict, seed int64, only, rounds int, limit, length time.Duration,
	selftest, small bool) error {
	tell := func(line string) {
		fmt.Printf("%s %s\n", time.Now().Format("15:04:05"), line)
	}

	tell(fmt.Sprintf("seed %d", seed))
	e, err := newEnvironment(o, seed)
	defer e.stop()
	stopOnSignal(e)
	v.notes = e.notes
	if err != nil {
		return err
	}

	if selftest || small {
		checkRightHistories(v)
		if e.bare != nil {
			v.found = append(v.found, checkRefusedRelease(e, v)...)
			e.clear()
		}
		if selftest && e.redis != nil {
			v.found = append(v.found, checkFelt(e, tell)...)
			e.clear()
		}
		if selftest && e.masters != nil {
			v.found = append(v.found, checkMasters(e, tell)...)
			e.clear()
		}
		selfTest(e, v, small, tell)
		for _, f := range v.found {
			tell("FOUND " + f.String())
		}
	}
	if selftest {
		return nil
	}

	end := time.Now().Add(limit)
	for n := 0; only > 0 || time.Now().Before(end); n++ {
		if only > 0 {
			n = only - 1
		}
		r := newRound(e, specOf(o.topology, o.powercut != "", o.kinds, n), fmt.Sprintf("round%d", n+1), seed+int64(n)*1000003)
		if err := r.run(length); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		v.rounds++
		calls, faults := r.hist.snapshot()
		v.addHistory(calls, faults)
		v.commits += r.commits
		tell(r.summary())
		for _, f := range r.found {
			f.Text = r.name + ": " + f.Text
			v.found = append(v.found, f)
			tell("FOUND " + f.String())
		}
		if len(r.found) > 0 {
			e.clear()
		}
		if len(v.found) > 50 {
			return fmt.Errorf("too many findings, not going on")
		}
		if only > 0 || v.rounds == rounds {
			break
		}
	}
	return nil
}

// stopOnSignal ends the servers before the program.
func stopOnSignal(e *Environment) {
	signals := make(chan os.Signal, 1)

	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		e.stop()
		os.Exit(1)
	}()
}
