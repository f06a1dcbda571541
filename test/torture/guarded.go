// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"strconv"
)

// checkGuarded: what the table guarded has at the end is what all committed
// transactions have added, one after the other.
//
//   - each wrote a value of its own: nobody overwrote what he had not seen,
//   - the last value is the number of the commits,
//   - each commit that was acknowledged is there,
//   - in the order of the values, tokens never decrease.
//
// A commit whose answer was lost is judged by its row, like all others.
func checkGuarded(node *Postgres, keys []string, acknowledged map[string]bool) ([]Finding, int) {
	var found []Finding
	commits := 0
	report := func(format string, args ...interface{}) {
		found = append(found, Finding{"guarded table",
			node.name + ": " + fmt.Sprintf(format, args...)})
	}
	seen := map[string]bool{}

	for _, key := range keys {
		rows, err := node.query("SELECT value FROM guarded WHERE key = '" + key + "'")
		if err != nil || len(rows) != 1 {
			report("no value of %s: %v", key, err)
			continue
		}
		final, _ := strconv.ParseInt(rows[0][0], 10, 64)
		rows, err = node.query("SELECT value, token, tag FROM guarded_log WHERE key = '" +
			key + "' ORDER BY value, id")
		if err != nil {
			report("no log of %s: %v", key, err)
			continue
		}
		commits += len(rows)
		if final != int64(len(rows)) {
			report("%s: value %d after %d commits", key, final, len(rows))
		}
		var lastValue, lastToken int64
		var lastTag string
		for _, row := range rows {
			value, _ := strconv.ParseInt(row[0], 10, 64)
			token, _ := strconv.ParseInt(row[1], 10, 64)
			seen[row[2]] = true
			if value == lastValue {
				report("%s: lost update: %s and %s both wrote %d", key, lastTag, row[2], value)
			}
			if token < lastToken {
				report("%s: %s wrote %d with token %d, before it %s with token %d",
					key, row[2], value, token, lastTag, lastToken)
			}
			lastValue, lastToken, lastTag = value, token, row[2]
		}
	}
	for tag := range acknowledged {
		if !seen[tag] {
			report("the commit of %s was acknowledged, but is not there", tag)
		}
	}
	return found, commits
}
