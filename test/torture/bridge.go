// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// A Bridge joins machines, network namespaces with an address each, with each
// other and with us; the way from each to each can be cut in each direction.
type Bridge struct {
	machines []*Machine // the first one is us
}

// A Machine has the device "lrcable", ours is the bridge itself.
type Machine struct {
	address, mac, device string
	holder               *Process
}

const bridgeDevice = "lrbridge"

func newMachine(number int, device string) *Machine {
	return &Machine{address: fmt.Sprintf("10.178.0.%d", number),
		mac: fmt.Sprintf("02:00:00:00:01:%02x", number), device: device}
}

func newBridge() (*Bridge, error) {
	us := newMachine(1, bridgeDevice)
	steps := [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "link", "add", bridgeDevice, "type", "bridge"},
		{"ip", "link", "set", bridgeDevice, "address", us.mac},
		{"ip", "addr", "add", us.address + "/24", "dev", bridgeDevice},
		{"ip", "link", "set", bridgeDevice, "up"},
	}
	for _, step := range steps {
		if err := run(step...); err != nil {
			return nil, err
		}
	}
	return &Bridge{machines: []*Machine{us}}, nil
}

// holdNamespace starts a process in a network namespace of its own, which is there
// when this returns.
func holdNamespace() (*Process, error) {
	holder, err := startProcess(exec.Command("unshare", "--net", "sleep", "1000000"))
	if err != nil {
		return nil, err
	}
	ours, err := os.Readlink("/proc/self/ns/net")
	for tries := 0; err == nil; tries++ {
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", holder.pid()))
		if err == nil && theirs != ours {
			return holder, nil
		}
		if tries > 100 {
			break
		}
		sleepMillis(20)
	}
	holder.kill()
	return nil, fmt.Errorf("no network namespace")
}

func (b *Bridge) newMachine() (*Machine, error) {
	number := len(b.machines) + 1
	m := newMachine(number, "lrcable")
	port := fmt.Sprintf("lrport%d", number)
	var err error

	if m.holder, err = holdNamespace(); err != nil {
		return nil, err
	}
	b.machines = append(b.machines, m)
	steps := [][]string{
		{"ip", "link", "add", port, "type", "veth", "peer", "name", m.device,
			"netns", strconv.Itoa(m.holder.pid())},
		{"ip", "link", "set", port, "master", bridgeDevice, "up"},
		m.inside("ip", "link", "set", "lo", "up"),
		m.inside("ip", "link", "set", m.device, "address", m.mac),
		m.inside("ip", "addr", "add", m.address+"/24", "dev", m.device),
		m.inside("ip", "link", "set", m.device, "up"),
	}
	for _, step := range steps {
		if err := run(step...); err != nil {
			return nil, err
		}
	}
	return m, b.heal()
}

// inside is a command for the machine.
func (m *Machine) inside(command ...string) []string {
	if m.holder == nil {
		return command
	}
	return append([]string{"nsenter", "--net", "--target",
		strconv.Itoa(m.holder.pid()), "--"}, command...)
}

// sendTo says which hardware address another machine is said to have.
func (m *Machine) sendTo(other *Machine, mac string) error {
	return run(m.inside("ip", "neigh", "replace", other.address, "lladdr", mac,
		"dev", m.device, "nud", "permanent")...)
}

// cut loses what one sends to the other; see Network.cut.
func (b *Bridge) cut(from, to *Machine) error { return from.sendTo(to, bogusMac) }

// isolate cuts a machine off from all others, in both directions, or from all but us.
func (b *Bridge) isolate(m *Machine, fromUs bool) error {
	for i, other := range b.machines {
		if other == m || i == 0 && !fromUs {
			continue
		}
		if err := b.cut(m, other); err != nil {
			return err
		}
		if err := b.cut(other, m); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bridge) heal() error {
	for _, m := range b.machines {
		for _, other := range b.machines {
			if m == other {
				continue
			}
			if err := m.sendTo(other, other.mac); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Bridge) close() {
	for _, m := range b.machines {
		if m.holder != nil {
			m.holder.kill()
		}
	}
}
