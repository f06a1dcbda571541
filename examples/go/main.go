// A service that builds a report, one of all services at a time: the lock is redsync's, the
// database pgx's.  Whoever says redis_token_lock('report') in SQL is one of them.
//
//	service DSN REDIS_URL [NAME OF THE LOCK]
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

func service(dsn, redisURL, name string) error {
	ctx := context.Background()
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		return err
	}
	locks := redsync.New(goredis.NewPool(redis.NewClient(options)))

	// A connection, not a pool: with one, pool.Acquire() for as long as the lock is had
	connection, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer connection.Close(ctx)

	lock := locks.NewMutex(name, redsync.WithExpiry(time.Minute),
		redsync.WithRetryDelay(100*time.Millisecond), redsync.WithTries(10000))
	if err := lock.TryLock(); err != nil {
		fmt.Println("busy")
		if err := lock.Lock(); err != nil {
			return err
		}
	}
	defer lock.Unlock()

	err = pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "CALL build_report($1)", "go"); err != nil {
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
	name := "report"
	if len(os.Args) > 3 {
		name = os.Args[3]
	}
	if err := service(os.Args[1], os.Args[2], name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
