// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// The lock as an object whose calls take effect one after the other, each at
// one moment between its start and its end.  The state is what clients may
// believe, not what the store has:
//
//   - a granted lock is the client's from some moment of the call on,
//   - an acquire that ended with an error, or with busy, has given nothing: it
//     is not in the model,
//   - a release, answered or not, ends the client's part during the call; that
//     the store may have the key for longer is of no interest here,
//   - a client that was killed or cut off had the lock until some moment between
//     its last answer and the notice of its death: opDrop with these times,
//   - a wait for a condition is that all holds end during the call, and then begin again,
//   - a fencing token is higher than those of all former holders.
//
// A key may be held for reading, by many at once, unless somebody else writes; who
// writes may read, too, and goes on reading when it has written; who only reads does
// not get it for writing.
type lockState struct {
	owner   string // has it alone, or for writing
	count   int
	token   int64
	readers [maxClients]uint8 // how often, by number of the client; or its permits
}

const maxClients = 32

func (s *lockState) read() bool { return s.readers != [maxClients]uint8{} }

func lockStep(state, input, _ interface{}) (bool, interface{}) {
	s := state.(lockState)
	c := input.(Call)

	switch c.Mode {
	case modeRead:
		return readStep(s, c)
	case modePermit:
		return permitStep(s, c)
	}
	switch c.Op {
	case opLock:
		switch {
		case s.owner == "" && !s.read():
			if c.Token != 0 && c.Token <= s.token {
				return false, s
			}
			s.owner, s.count = c.Client, 1
		case s.owner == c.Client:
			if c.Token != 0 && c.Token < s.token {
				return false, s
			}
			s.count++
		default:
			return false, s
		}
		if c.Token > s.token {
			s.token = c.Token
		}
		return true, s
	case opUnlock:
		if s.owner != c.Client {
			return false, s
		}
		s.count--
		if s.count == 0 {
			s.owner = ""
		}
		return true, s
	case opDrop:
		if s.owner != c.Client {
			return false, s
		}
		s.owner, s.count = "", 0
		return true, s
	case opAgain:
		if s.owner != "" || s.read() {
			return false, s
		}
		s.owner, s.count = c.Client, c.Count
		return true, s
	case opHeld:
		return (s.owner == c.Client) == (c.Result == "true"), s
	case opCount:
		n := 0
		if s.owner == c.Client {
			n = s.count
		}
		return n == c.Count, s
	}
	panic("not in the model: " + c.Op)
}

func readStep(s lockState, c Call) (bool, interface{}) {
	n := &s.readers[c.number]

	switch c.Op {
	case opLock:
		if s.owner != "" && s.owner != c.Client {
			return false, s
		}
		*n++
		return true, s
	case opUnlock:
		if *n == 0 {
			return false, s
		}
		*n--
		return true, s
	case opDrop:
		if *n == 0 {
			return false, s
		}
		*n = 0
		return true, s
	case opHeld:
		return (*n > 0) == (c.Result == "true"), s
	case opCount:
		return int(*n) == c.Count, s
	}
	panic("not in the model: " + c.Op)
}

func describeCall(input, _ interface{}) string {
	c := input.(Call)
	text := c.Client + " " + c.Op
	if c.Mode != modeAlone {
		text += " " + c.Mode
	}
	if c.Token != 0 {
		text += fmt.Sprintf(" token %d", c.Token)
	}
	if c.Op == opHeld {
		text += " " + c.Result
	}
	if c.Op == opCount {
		text += fmt.Sprintf(" %d", c.Count)
	}
	return text
}

var lockModel = porcupine.Model{
	Init:              func() interface{} { return lockState{} },
	Step:              lockStep,
	DescribeOperation: describeCall,
	DescribeState: func(state interface{}) string {
		s := state.(lockState)
		text := fmt.Sprintf("%s x%d, token %d", s.owner, s.count, s.token)
		for number, n := range s.readers {
			if n > 0 {
				text += fmt.Sprintf(", reader %d x%d", number, n)
			}
		}
		return text
	},
}

func inModel(c *Call) bool {
	switch c.Op {
	case opLock, opUnlock:
		return c.Result == resultOK
	case opDrop, opAgain:
		return true
	case opHeld:
		return c.Result == "true" || c.Result == "false"
	case opCount:
		return c.Result == resultOK
	}
	return false
}

// checkExclusion judges each key by itself, which is enough: an object is
// linearizable if and only if its parts are.  picture is where to draw a
// history that is refused ("": nowhere).
func checkExclusion(calls []Call, limit time.Duration, picture string) []Finding {
	var found []Finding

	keys := byKey(calls)
	for _, key := range sortedKeys(keys) {
		var ops []porcupine.Operation
		ids := map[string]int{}

		for _, c := range keys[key] {
			if !inModel(&c) || c.End == 0 {
				continue
			}
			id, known := ids[c.Client]
			if !known {
				id = len(ids)
				ids[c.Client] = id
			}
			c.number = id
			end := c.End
			if c.Late {
				end = 1 << 62
			}
			ops = append(ops, porcupine.Operation{ClientId: id, Input: c,
				Call: c.Start, Return: end})
		}

		// Drawing needs all partial results, which take long to collect: only
		// when it is known that there is something to be seen.
		switch porcupine.CheckOperationsTimeout(lockModel, ops, limit) {
		case porcupine.Ok:
		case porcupine.Unknown:
			found = append(found, Finding{"exclusion", fmt.Sprintf(
				"%s: %d calls could not be judged within %v", key, len(ops), limit)})
		case porcupine.Illegal:
			text := fmt.Sprintf("%s: no order of its %d calls is one of a lock", key, len(ops))
			for _, line := range contradictions(keys[key]) {
				text += "\n    " + line
			}
			if picture != "" {
				_, info := porcupine.CheckOperationsVerbose(lockModel, ops, limit)
				path := picture + "-" + key + ".html"
				if porcupine.VisualizePath(lockModel, info, path) == nil {
					text += "\n    drawn in " + path
				}
			}
			found = append(found, Finding{"exclusion", text})
		}
	}
	return found
}

// contradictions are what a reader sees at once: times when two clients surely
// had the lock, and tokens that went backwards.  A help for the reader only;
// the judgement is the model's.
func contradictions(calls []Call) []string {
	type span struct {
		client, mode string
		from, to     int64
		token        int64
		depth        int
	}
	var lines []string
	var spans []*span
	open := map[[2]string]*span{}

	for i := range calls {
		c := &calls[i]
		if !inModel(c) || c.End == 0 {
			continue
		}
		who := [2]string{c.Client, c.Mode}
		s := open[who]
		switch c.Op {
		case opLock:
			if s == nil {
				s = &span{client: c.Client, mode: c.Mode, from: c.End, to: 1<<63 - 1,
					token: c.Token}
				open[who] = s
				spans = append(spans, s)
			}
			s.depth++
		case opAgain:
			s = &span{client: c.Client, from: c.End, to: 1<<63 - 1, depth: c.Count}
			open[who] = s
			spans = append(spans, s)
		case opUnlock, opDrop:
			if s == nil {
				lines = append(lines, fmt.Sprintf("%s: %s without a lock, at %.6f s",
					c.Client, c.Op, seconds(c.Start)))
				continue
			}
			s.depth--
			if s.depth == 0 || c.Op == opDrop {
				s.to = c.Start
				delete(open, who)
			}
		}
	}
	for i, a := range spans {
		for _, b := range spans[i+1:] {
			if a.mode == modeRead && b.mode == modeRead || a.mode == modePermit {
				continue
			}
			if a.client != b.client && a.from < b.to && b.from < a.to && len(lines) < 10 {
				lines = append(lines, fmt.Sprintf(
					"%s had it from %.6f to %.6f s, %s from %.6f to %.6f s",
					a.client, seconds(a.from), seconds(a.to),
					b.client, seconds(b.from), seconds(b.to)))
			}
			if a.token != 0 && b.token != 0 && a.to < b.from && a.token >= b.token &&
				len(lines) < 10 {
				lines = append(lines, fmt.Sprintf("token %d of %s, then %d of %s",
					a.token, a.client, b.token, b.client))
			}
		}
	}
	return lines
}
