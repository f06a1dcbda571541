// Copyright (c) 2026, lockredis contributors

package lockredis.interop;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.RedissonRedLock;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * What a thread of the {@link Driver} can be told to do with the lock whose name is the first
 * argument. Times are milliseconds; a lease of -1 is renewed by Redisson's watchdog.
 *
 * <ul>
 *   <li>{@code lock key lease}
 *   <li>{@code tryLock key wait lease}: true or false
 *   <li>{@code unlock key}
 *   <li>{@code forceUnlock key}, {@code isLocked key}, {@code isHeld key}: true or false
 *   <li>{@code remain key}, {@code holdCount key}: a number
 *   <li>{@code owner key}: how this thread appears in the lock's hash
 *   <li>{@code fencedLock key}: the token; {@code fencedUnlock key}; {@code token key}
 *   <li>{@code pollTry key duration pause}: tries again and again without waiting, gives back what
 *       it gets; number of tries, number of successes
 *   <li>{@code counter key counterKey n history}: n times lock, GET, add one, SET, unlock; the
 *       steps go to the file named last
 * </ul>
 *
 * A command that begins with {@code read.} or {@code write.} is for a lock of the read-write lock
 * of that name, one with {@code fair.} for the fair lock, one with {@code multi.} for the locks of
 * all names that the argument has, with commas between them, one with {@code red.} for the
 * RedissonRedLock of that name at several masters. What counts and is no lock is told by {@link
 * CountCommands}.
 */
final class LockCommands {

    private LockCommands() {}

    static List<String> run(
            List<RedissonClient> masters, String command, List<String> arguments)
            throws Exception {
        RedissonClient client = masters.get(0);

        if (CountCommands.has(command)) {
            return CountCommands.run(client, command, arguments);
        }
        String key = arguments.get(0);
        RLock lock = command.startsWith("red.")
                ? redLock(masters, key)
                : lock(client, command, key);

        switch (command.substring(command.indexOf('.') + 1)) {
            case "lock":
                lock.lock(number(arguments, 1), TimeUnit.MILLISECONDS);
                return List.of();
            case "tryLock":
                return reply(lock.tryLock(
                        number(arguments, 1), number(arguments, 2), TimeUnit.MILLISECONDS));
            case "unlock":
                lock.unlock();
                return List.of();
            case "forceUnlock":
                return reply(lock.forceUnlock());
            case "isLocked":
                return reply(lock.isLocked());
            case "isHeld":
                return reply(lock.isHeldByCurrentThread());
            case "remain":
                return reply(lock.remainTimeToLive());
            case "holdCount":
                return reply(lock.getHoldCount());
            case "owner":
                return reply(client.getId() + ":" + Thread.currentThread().getId());
            case "fencedLock":
                return reply(client.getFencedLock(key).lockAndGetToken());
            case "fencedUnlock":
                client.getFencedLock(key).unlock();
                return List.of();
            case "token":
                return reply(client.getFencedLock(key).getToken());
            case "pollTry":
                return pollTry(lock, number(arguments, 1), number(arguments, 2));
            case "counter":
                RBucket<String> value =
                        client.getBucket(arguments.get(1), StringCodec.INSTANCE);
                try (History history =
                        new History(arguments.get(3), Thread.currentThread().getName())) {
                    counter(lock, key, value, number(arguments, 2), history);
                }
                return List.of();
            default:
                throw new IllegalArgumentException("unknown command: " + command);
        }
    }

    private static RLock lock(RedissonClient client, String command, String key) {
        if (command.startsWith("read.")) {
            return client.getReadWriteLock(key).readLock();
        }
        if (command.startsWith("write.")) {
            return client.getReadWriteLock(key).writeLock();
        }
        if (command.startsWith("fair.")) {
            return client.getFairLock(key);
        }
        if (command.startsWith("multi.")) {
            return client.getMultiLock(
                    Arrays.stream(key.split(",")).map(client::getLock).toArray(RLock[]::new));
        }
        return client.getLock(key);
    }

    @SuppressWarnings("deprecation")
    private static RLock redLock(List<RedissonClient> masters, String key) {
        return new RedissonRedLock(
                masters.stream().map(client -> client.getLock(key)).toArray(RLock[]::new));
    }

    private static long number(List<String> arguments, int index) {
        return Long.parseLong(arguments.get(index));
    }

    private static List<String> reply(Object value) {
        return List.of(String.valueOf(value));
    }

    private static List<String> pollTry(RLock lock, long duration, long pause)
            throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(duration);
        int tries = 0;
        int successes = 0;

        while (System.nanoTime() - end < 0) {
            tries++;
            if (lock.tryLock()) {
                successes++;
                lock.unlock();
            }
            Thread.sleep(pause);
        }
        return List.of(String.valueOf(tries), String.valueOf(successes));
    }

    private static void counter(
            RLock lock, String key, RBucket<String> value, long n, History history)
            throws IOException {
        for (long i = 0; i < n; i++) {
            long locking = System.nanoTime();
            lock.lock();
            long held = System.nanoTime();
            history.add("lock", key, locking, held, "ok");

            long unlocking;
            try {
                String next = String.valueOf(Long.parseLong(value.get()) + 1);
                value.set(next);
                history.add("write", key, held, System.nanoTime(), next);
            } finally {
                unlocking = System.nanoTime();
                lock.unlock();
            }
            history.add("unlock", key, unlocking, System.nanoTime(), "ok");
        }
    }
}
