// Copyright (c) 2026, lockredis contributors

package main

import (
	"bytes"
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
	for _, name := range []string{"tree", "ino", "keep"} {
		if err := os.RemoveAll(filepath.Join(p.state, name)); err != nil {
			return err
		}
		if name == "tree" {
			continue
		}
		if err := os.Mkdir(filepath.Join(p.state, name), 0o700); err != nil {
			return err
		}
	}
	out, err := exec.Command("cp", "-a", p.root, filepath.Join(p.state, "tree")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	return filepath.WalkDir(p.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		return p.pair(path)
	})
}

// kept is where a file of the directory is in the tree.
func (p *Power) kept(path string) string {
	return filepath.Join(p.state, "tree", strings.TrimPrefix(path, p.root))
}

// pairs are what belongs to the inode number of a file: the link that keeps it from
// being used again, and the contents.
func (p *Power) pairs(path string) (keep, contents string, err error) {
	var st syscall.Stat_t

	err = syscall.Stat(path, &st)
	number := fmt.Sprint(st.Ino)
	return filepath.Join(p.state, "keep", number), filepath.Join(p.state, "ino", number), err
}

// pair says that what is kept of a file is in the tree.
func (p *Power) pair(path string) error {
	keep, contents, err := p.pairs(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(contents); err == nil {
		return nil // by another name
	}
	if err := os.Link(path, keep); err != nil {
		return err
	}
	return os.Link(p.kept(path), contents)
}

// cut: what was not synced is lost.  The server has been killed.
func (p *Power) cut() error {
	if p == nil {
		return nil
	}
	p.fill(false)
	if err := filepath.WalkDir(p.root, p.lose); err != nil {
		return err
	}
	tree := filepath.Join(p.state, "tree")
	return filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return p.restore(filepath.Join(p.root, strings.TrimPrefix(path, tree)), path, entry)
	})
}

// lose deletes what is not as it was synced.
func (p *Power) lose(path string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	_, missing := os.Lstat(p.kept(path))
	if entry.IsDir() {
		if missing == nil {
			return nil
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		return filepath.SkipDir
	}
	keep, contents, err := p.pairs(path)
	if err != nil {
		return err
	}
	if missing == nil && sameFile(contents, p.kept(path)) && sameContents(contents, path) {
		return nil
	}
	os.Remove(keep)
	os.Remove(contents)
	return os.Remove(path)
}

// restore makes what is not there as it was synced.
func (p *Power) restore(path, kept string, entry fs.DirEntry) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if entry.IsDir() {
		return os.Mkdir(path, 0o700)
	}
	data, err := os.ReadFile(kept)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	return p.pair(path)
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

func sameContents(a, b string) bool {
	one, err := os.ReadFile(a)
	if err != nil {
		return false
	}
	other, err := os.ReadFile(b)
	return err == nil && bytes.Equal(one, other)
}
