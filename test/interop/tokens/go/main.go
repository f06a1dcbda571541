// Copyright (c) 2026, lockredis contributors

// Redsync as a service would use it, told line by line what to do; see
// test/perl/LockRedis/TokenClient.pm.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

var service *redsync.Redsync

func ms(text string) time.Duration {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return time.Duration(n) * time.Millisecond
}

// One of somebody else, as far as its token says
func known(key string, token string, lease string) *redsync.Mutex {
	return service.NewMutex(key, redsync.WithValue(token), redsync.WithExpiry(ms(lease)))
}

func refused(err error) bool {
	var taken *redsync.ErrTaken
	var nodeTaken *redsync.ErrNodeTaken
	return errors.As(err, &taken) || errors.As(err, &nodeTaken) ||
		errors.Is(err, redsync.ErrExtendFailed) ||
		errors.Is(err, redsync.ErrLockAlreadyExpired) || errors.Is(err, redsync.ErrFailed)
}

func do(verb string, args []string) (string, error) {
	switch verb {
	case "take":
		options := []redsync.Option{
			redsync.WithExpiry(ms(args[2])),
			redsync.WithTries(1 + int(ms(args[3])/(50*time.Millisecond))),
			redsync.WithRetryDelay(50 * time.Millisecond),
			redsync.WithTimeoutFactor(0.5),
		}
		if args[1] != "-" {
			options = append(options, redsync.WithGenValueFunc(func() (string, error) {
				return args[1], nil
			}))
		}
		mutex := service.NewMutex(args[0], options...)
		err := mutex.Lock()
		return mutex.Value(), err
	case "extend":
		done, err := known(args[0], args[1], args[2]).Extend()
		if err == nil && !done {
			err = redsync.ErrExtendFailed
		}
		return "yes", err
	case "release":
		done, err := known(args[0], args[1], "1000").Unlock()
		if err == nil && !done {
			err = redsync.ErrFailed
		}
		return "yes", err
	}
	return "", fmt.Errorf("no such verb")
}

func main() {
	var pools []pool.Pool
	for _, port := range os.Args[1:] {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
		pools = append(pools, goredis.NewPool(client))
	}
	service = redsync.New(pools...)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		result, err := do(words[0], words[1:])
		switch {
		case err == nil:
			fmt.Println("ok " + result)
		case refused(err):
			fmt.Println("no")
		default:
			fmt.Println("error " + strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
}
