// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"sort"
	"strings"
)

// A Finding is something that must not be.
type Finding struct {
	Check string
	Text  string
}

func (f Finding) String() string {
	return f.Check + ": " + f.Text
}

// A Verdict is what the whole run has found, in figures.
type Verdict struct {
	rounds   int
	calls    int
	grants   int
	commits  int
	faults   map[string]int
	controls int
	tries    int            // of controls, with those that were done again
	errors   map[string]int // by SQLSTATE
	found    []Finding
	notes    []string
}

func newVerdict() *Verdict {
	return &Verdict{faults: map[string]int{}, errors: map[string]int{}}
}

func (v *Verdict) addHistory(calls []Call, faults []Window) {
	v.calls += len(calls)
	for i := range calls {
		c := &calls[i]
		if c.Op == opLock && c.Result == resultOK {
			v.grants++
		}
		if c.Op == opLock && c.Result != resultOK && c.Result != resultBusy {
			v.errors[c.Result]++
		}
	}
	for _, w := range faults {
		v.faults[w.Name]++
	}
}

func counts(m map[string]int) string {
	var parts []string

	for name, n := range m {
		parts = append(parts, fmt.Sprintf("%s %d", name, n))
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}

func total(m map[string]int) int {
	n := 0
	for _, k := range m {
		n += k
	}
	return n
}

// line is the verdict in one line.
func (v *Verdict) line() string {
	head := "nothing found"
	if len(v.found) == 1 {
		head = "1 FINDING"
	} else if len(v.found) > 1 {
		head = fmt.Sprintf("%d FINDINGS", len(v.found))
	}
	var figures []string
	if v.rounds > 0 {
		figures = append(figures, fmt.Sprintf(
			"%d rounds, %d calls, %d locks granted, %d guarded commits, %d faults of %d kinds",
			v.rounds, v.calls, v.grants, v.commits, total(v.faults), len(v.faults)))
	}
	if v.controls > 0 {
		figures = append(figures, fmt.Sprintf("%d negative controls", v.controls))
	}
	return "torture: " + head + ": " + strings.Join(figures, "; ")
}
