// Copyright (c) 2026, lockredis contributors

package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// A Network is a second network namespace, joined to ours by a link that can be
// cut in each direction.  We are in a user namespace of our own, where that is
// allowed without being root; see script/torture.
type Network struct {
	holder *Process
	ours   linkEnd
	theirs linkEnd
}

type linkEnd struct {
	device, address, mac string
}

const bogusMac = "02:00:00:00:00:99"

func newNetwork() (*Network, error) {
	n := &Network{
		ours:   linkEnd{device: "lrours", address: "10.177.0.1"},
		theirs: linkEnd{device: "lrtheirs", address: "10.177.0.2"}}
	var err error

	if err = run("ip", "link", "set", "lo", "up"); err != nil {
		return nil, err
	}
	if n.holder, err = holdNamespace(); err != nil {
		return nil, err
	}
	steps := [][]string{
		{"ip", "link", "add", n.ours.device, "type", "veth", "peer", "name",
			n.theirs.device, "netns", strconv.Itoa(n.holder.pid())},
		{"ip", "addr", "add", n.ours.address + "/24", "dev", n.ours.device},
		{"ip", "link", "set", n.ours.device, "up"},
		n.inside("ip", "link", "set", "lo", "up"),
		n.inside("ip", "addr", "add", n.theirs.address+"/24", "dev", n.theirs.device),
		n.inside("ip", "link", "set", n.theirs.device, "up"),
	}
	for _, step := range steps {
		if err := run(step...); err != nil {
			n.close()
			return nil, err
		}
	}
	n.ours.mac, err = mac("ip", "-o", "link", "show", n.ours.device)
	if err == nil {
		n.theirs.mac, err = mac(n.inside("ip", "-o", "link", "show", n.theirs.device)...)
	}
	if err != nil {
		n.close()
		return nil, err
	}
	return n, n.heal()
}

// mac is the hardware address in what "ip" tells of a device.
func mac(command ...string) (string, error) {
	out, err := exec.Command(command[0], command[1:]...).Output()
	if err != nil {
		return "", err
	}
	words := strings.Fields(string(out))
	for i, word := range words {
		if word == "link/ether" && i+1 < len(words) {
			return words[i+1], nil
		}
	}
	return "", fmt.Errorf("no address in %q", out)
}

func run(command ...string) error {
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %v: %s", strings.Join(command, " "), err,
			strings.TrimSpace(string(out)))
	}
	return nil
}

// inside is a command for the other namespace.
func (n *Network) inside(command ...string) []string {
	return append([]string{"nsenter", "--net", "--target",
		strconv.Itoa(n.holder.pid()), "--"}, command...)
}

// cut loses all that goes out of the other namespace, or all that goes in.  What
// is sent to a wrong hardware address is dropped by the receiver, silently, as
// if the cable were broken: no error, no reset.
func (n *Network) cut(outgoing, incoming bool) error {
	if outgoing {
		if err := run(n.inside("ip", "neigh", "replace", n.ours.address, "lladdr",
			bogusMac, "dev", n.theirs.device, "nud", "permanent")...); err != nil {
			return err
		}
	}
	if incoming {
		return run("ip", "neigh", "replace", n.theirs.address, "lladdr",
			bogusMac, "dev", n.ours.device, "nud", "permanent")
	}
	return nil
}

func (n *Network) heal() error {
	err := run(n.inside("ip", "neigh", "replace", n.ours.address, "lladdr",
		n.ours.mac, "dev", n.theirs.device, "nud", "permanent")...)
	if err != nil {
		return err
	}
	return run("ip", "neigh", "replace", n.theirs.address, "lladdr",
		n.theirs.mac, "dev", n.ours.device, "nud", "permanent")
}

func (n *Network) close() {
	n.holder.kill()
}
