// Builds a report, while no other service does.  It locks with redsync, and writes with pgx.
// A session that calls redis_token_lock('go-report') in SQL takes the same lock.
//
// The variables of libpq and REDIS_URL say where the servers are, LEASE how many seconds the
// lock lasts.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

func setting(name, usual string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return usual
}

func service() error {
	ctx := context.Background()
	options, err := redis.ParseURL(setting("REDIS_URL", "redis://localhost:6379"))
	if err != nil {
		return err
	}
	locks := redsync.New(goredis.NewPool(redis.NewClient(options)))
	lease, err := time.ParseDuration(setting("LEASE", "60") + "s")
	if err != nil {
		return err
	}

	// One connection.  With a pool, call pool.Acquire() and keep it as long as the lock
	connection, err := pgx.Connect(ctx, "")
	if err != nil {
		return err
	}
	defer connection.Close(ctx)

	lock := locks.NewMutex("go-report", redsync.WithExpiry(lease),
		redsync.WithRetryDelay(100*time.Millisecond), redsync.WithTries(10000))
	if err := lock.TryLock(); err != nil {
		fmt.Println("busy")
		if err := lock.Lock(); err != nil {
			return err
		}
	}
	defer lock.Unlock()

	err = pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO service_report (made_by) VALUES ('go')"); err != nil {
			return err
		}
		// Not renewed: nothing is committed if it is not ours any more.
		_, err := lock.Extend()
		return err
	})
	if err == nil {
		fmt.Println("built")
	}
	return err
}

func main() {
	if err := service(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
