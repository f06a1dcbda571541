// Copyright (c) 2026, lockredis contributors

package lockredis.interop;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/**
 * What a thread of the {@link Driver} can be told to do with what counts and is no lock. The first
 * argument is the name, times are milliseconds.
 *
 * <ul>
 *   <li>{@code permit.init key n}, {@code permit.set key n}, {@code permit.acquire key lease}: its
 *       id, {@code permit.tryAcquire key wait lease}: its id or null, {@code permit.release key id}
 *       and {@code permit.extend key id lease}: true or false, {@code permit.available key}, {@code
 *       permit.total key}
 *   <li>{@code semaphore.init key n}, {@code semaphore.acquire key n}, {@code semaphore.tryAcquire
 *       key n wait}: true or false, {@code semaphore.release key n}, {@code semaphore.available
 *       key}, {@code semaphore.add key n}, {@code semaphore.drain key}
 *   <li>{@code latch.set key n}, {@code latch.countDown key}, {@code latch.count key}, {@code
 *       latch.await key wait} and {@code latch.delete key}: true or false
 * </ul>
 */
final class CountCommands {

    private CountCommands() {}

    static boolean has(String command) {
        return command.startsWith("permit.")
                || command.startsWith("semaphore.")
                || command.startsWith("latch.");
    }

    static List<String> run(RedissonClient client, String command, List<String> arguments)
            throws Exception {
        String key = arguments.get(0);
        String verb = command.substring(command.indexOf('.') + 1);

        if (command.startsWith("permit.")) {
            return permit(client.getPermitExpirableSemaphore(key), verb, arguments);
        }
        if (command.startsWith("semaphore.")) {
            return semaphore(client.getSemaphore(key), verb, arguments);
        }
        return latch(client.getCountDownLatch(key), verb, arguments);
    }

    private static List<String> permit(
            RPermitExpirableSemaphore permits, String verb, List<String> arguments)
            throws Exception {
        switch (verb) {
            case "init":
                return reply(permits.trySetPermits(count(arguments, 1)));
            case "set":
                permits.setPermits(count(arguments, 1));
                return List.of();
            case "acquire":
                return reply(permits.acquire(number(arguments, 1), TimeUnit.MILLISECONDS));
            case "tryAcquire":
                return reply(permits.tryAcquire(
                        number(arguments, 1), number(arguments, 2), TimeUnit.MILLISECONDS));
            case "release":
                return reply(permits.tryRelease(arguments.get(1)));
            case "extend":
                return reply(permits.updateLeaseTime(
                        arguments.get(1), number(arguments, 2), TimeUnit.MILLISECONDS));
            case "available":
                return reply(permits.availablePermits());
            case "total":
                return reply(permits.getPermits());
            default:
                throw new IllegalArgumentException("unknown command: permit." + verb);
        }
    }

    private static List<String> semaphore(
            RSemaphore semaphore, String verb, List<String> arguments) throws Exception {
        switch (verb) {
            case "init":
                return reply(semaphore.trySetPermits(count(arguments, 1)));
            case "acquire":
                semaphore.acquire(count(arguments, 1));
                return List.of();
            case "tryAcquire":
                return reply(semaphore.tryAcquire(
                        count(arguments, 1), Duration.ofMillis(number(arguments, 2))));
            case "release":
                semaphore.release(count(arguments, 1));
                return List.of();
            case "available":
                return reply(semaphore.availablePermits());
            case "add":
                semaphore.addPermits(count(arguments, 1));
                return List.of();
            case "drain":
                return reply(semaphore.drainPermits());
            default:
                throw new IllegalArgumentException("unknown command: semaphore." + verb);
        }
    }

    private static List<String> latch(RCountDownLatch latch, String verb, List<String> arguments)
            throws Exception {
        switch (verb) {
            case "set":
                return reply(latch.trySetCount(number(arguments, 1)));
            case "countDown":
                latch.countDown();
                return List.of();
            case "count":
                return reply(latch.getCount());
            case "await":
                return reply(latch.await(number(arguments, 1), TimeUnit.MILLISECONDS));
            case "delete":
                return reply(latch.delete());
            default:
                throw new IllegalArgumentException("unknown command: latch." + verb);
        }
    }

    private static int count(List<String> arguments, int index) {
        return Integer.parseInt(arguments.get(index));
    }

    private static long number(List<String> arguments, int index) {
        return Long.parseLong(arguments.get(index));
    }

    private static List<String> reply(Object value) {
        return List.of(String.valueOf(value));
    }
}
