// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// A Power is what the files of a server have to fear: with -power who is killed has lost
// its power, and its files are as they were synced last.  The disk can become full, too.
// shim/powercut.c keeps what is synced, while the server runs.
type Power struct {
	library string
	root    string // the directory of the server's files
	state   string
	full    *int64
	below   string // what is on the disk that becomes full; "": all of it
}

// newPower: what is there now has been synced.
func newPower(library, root, below string) (*Power, error) {
	p := &Power{library: library, root: root, state: root + ".power", below: below}

	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.state, 0o700); err != nil {
		return nil, err
	}
	flag, err := newShiftedClock(filepath.Join(p.state, "full"))
	if err != nil {
		return nil, err
	}
	p.full = (*int64)(unsafe.Pointer(flag.offset))
	return p, p.synced()
}

// environment of a server: what preloads it, beside that other library.
func (p *Power) environment(env []string) []string {
	if p == nil {
		return env
	}
	var all []string
	for _, word := range env {
		if strings.HasPrefix(word, "LD_PRELOAD=") {
			word += " " + p.library
		}
		all = append(all, word)
	}
	all = append(all, "POWERCUT_ROOT="+p.root, "POWERCUT_STATE="+p.state)
	if p.below != "" {
		all = append(all, "POWERCUT_FULL="+filepath.Join(p.root, p.below))
	}
	return all
}

func (p *Power) fill(full bool) {
	atomic.StoreInt64(p.full, map[bool]int64{true: 1}[full])
}

// synced: all that is there now would survive.  The server must not run.
func (p *Power) synced() error {
	if p == nil {
		return nil
	}
	tree := filepath.Join(p.state, "tree")
	if err := os.RemoveAll(tree); err != nil {
		return err
	}
	if err := copyTree(p.root, tree); err != nil {
		return err
	}
	return p.pair()
}

// pair says which file is kept where; the tree is a copy of the directory.
func (p *Power) pair() error {
	for _, name := range []string{"ino", "keep"} {
		dir := filepath.Join(p.state, name)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	return filepath.WalkDir(p.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(p.root, path)
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Stat(path, &st); err != nil {
			return err
		}
		number := fmt.Sprint(st.Ino)
		if _, err := os.Stat(filepath.Join(p.state, "ino", number)); err == nil {
			return nil // by another name
		}
		if err := os.Link(path, filepath.Join(p.state, "keep", number)); err != nil {
			return err
		}
		return os.Link(filepath.Join(p.state, "tree", name),
			filepath.Join(p.state, "ino", number))
	})
}

// cut: what was not synced is lost.  The server has been killed.
func (p *Power) cut() error {
	if p == nil {
		return nil
	}
	p.fill(false)
	if err := os.RemoveAll(p.root); err != nil {
		return err
	}
	if err := copyTree(filepath.Join(p.state, "tree"), p.root); err != nil {
		return err
	}
	return p.pair()
}

func copyTree(from, to string) error {
	out, err := exec.Command("cp", "-a", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	return nil
}
