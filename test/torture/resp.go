// Copyright (c) 2026, lockredis contributors

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// A Resp is a connection to Redis that does nothing by itself: it sends a
// command once, and reports whatever goes wrong.  Libraries repeat commands and
// make new connections, which would blur what a history says.
type Resp struct {
	conn    net.Conn
	in      *bufio.Reader
	timeout time.Duration
}

// A RedisError is an error reply: the command was answered.
type RedisError string

func (e RedisError) Error() string { return string(e) }

func dialRedis(network, address string, timeout time.Duration) (*Resp, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return &Resp{conn, bufio.NewReader(conn), timeout}, nil
}

func (r *Resp) Close() { r.conn.Close() }

// do sends a command and reads its reply: string, int64, nil, or a list.  An error that
// stands in a list, as where one lock of a script was refused, is the error of the command.
func (r *Resp) do(words ...interface{}) (interface{}, error) {
	out := []byte(fmt.Sprintf("*%d\r\n", len(words)))
	for _, word := range words {
		text := fmt.Sprint(word)
		out = append(out, fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)...)
	}
	r.conn.SetDeadline(time.Now().Add(r.timeout))
	if _, err := r.conn.Write(out); err != nil {
		return nil, err
	}
	return r.read()
}

func (r *Resp) read() (interface{}, error) {
	line, err := r.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("not a reply: %q", line)
	}
	text := line[1 : len(line)-2]
	switch line[0] {
	case '+':
		return text, nil
	case '-':
		return nil, RedisError(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("not a reply: %q", line)
	}
	switch line[0] {
	case ':':
		return n, nil
	case '$':
		if n < 0 {
			return nil, nil
		}
		data := make([]byte, n+2)
		if _, err := io.ReadFull(r.in, data); err != nil {
			return nil, err
		}
		return string(data[:n]), nil
	case '*':
		if n < 0 {
			return nil, nil
		}
		var refused error
		list := make([]interface{}, n)
		for i := range list {
			list[i], err = r.read()
			if _, answered := err.(RedisError); err != nil && !answered {
				return nil, err
			} else if answered {
				refused = err
			}
		}
		return list, refused
	}
	return nil, fmt.Errorf("not a reply: %q", line)
}
