// Copyright (c) 2026, lockredis contributors

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.LockSupport;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's locks as a service would use them, with its watchdog and default settings, behind the
 * line protocol of client.h: RLock (of several masters RedissonRedLock), or what is called for
 * behind the request's other words. Each client is a thread; those that stand for separate servers
 * have a RedissonClient each.
 */
public final class RedissonPeer {

    private static final int SEQUENCE_SIZE = 65536;
    private static final int SEQUENCE_START = 16384;
    private static final int RELEASED_AT = 8 * 1024;
    private static final int RELEASER = 8 * 1025;

    private final ByteBuffer board;
    private final Map<String, RedissonClient> services = new HashMap<>();
    private final ExecutorService threads = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    });

    private RedissonPeer(ByteBuffer board) {
        this.board = board;
    }

    public static void main(String[] args) throws Exception {
        ByteBuffer board;
        try (FileChannel file = FileChannel.open(
                Path.of(args[0]), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            board = file.map(FileChannel.MapMode.READ_WRITE, 0, file.size());
        }
        RedissonPeer peer = new RedissonPeer(board.order(ByteOrder.nativeOrder()));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = in.readLine()) != null) {
            System.out.println(peer.run(new Request(line)));
        }
        Runtime.getRuntime().halt(0);
    }

    private static final class Request {
        final String[] ports;
        final int clients;
        final boolean separate;
        final int base;
        final long start;
        final long until;
        final String prefix;
        final String mode;
        final long hold;
        final long pause;
        final String kind;

        Request(String line) {
            String[] words = line.split(" ");
            if (words.length < 11 || words.length > 12 || !words[0].equals("run")) {
                throw new IllegalArgumentException("unknown request: " + line);
            }
            ports = words[1].split(",");
            clients = Integer.parseInt(words[2]);
            separate = words[3].equals("separate");
            base = Integer.parseInt(words[4]);
            start = Long.parseLong(words[5]);
            until = Long.parseLong(words[6]);
            prefix = words[7];
            mode = words[8];
            hold = Long.parseLong(words[9]) * 1000;
            pause = Long.parseLong(words[10]) * 1000;
            kind = words.length > 11 ? words[11] : "lock";
        }
    }

    /** Counts durations in 16 steps for each power of two. */
    private static final class Histogram {
        private final int[] counts = new int[1024];

        void add(long ns) {
            long n = Math.max(ns, 16);
            int e = 63 - Long.numberOfLeadingZeros(n);
            counts[e * 16 + (int) (n >> (e - 4) & 15)]++;
        }

        void merge(Histogram other) {
            for (int i = 0; i < counts.length; i++) {
                counts[i] += other.counts[i];
            }
        }

        @Override
        public String toString() {
            StringJoiner words = new StringJoiner(",");
            words.setEmptyValue("-");
            for (int i = 0; i < counts.length; i++) {
                if (counts[i] > 0) {
                    words.add(i + ":" + counts[i]);
                }
            }
            return words.toString();
        }
    }

    private static final class Result {
        long pairs;
        long steps;
        long errors;
        final Histogram lock = new Histogram();
        final Histogram pair = new Histogram();
        final Histogram wake = new Histogram();

        void merge(Result other) {
            pairs += other.pairs;
            steps += other.steps;
            errors += other.errors;
            lock.merge(other.lock);
            pair.merge(other.pair);
            wake.merge(other.wake);
        }

        @Override
        public String toString() {
            return String.join(" ", "ok", "" + pairs, "" + steps, "" + errors, "" + lock,
                    "" + pair, "" + wake);
        }
    }

    private RedissonClient service(Request request, String port, int client) {
        String name = request.separate ? port + "/" + client : port;
        return services.computeIfAbsent(name, made -> {
            Config config = new Config();
            config.useSingleServer().setAddress("redis://127.0.0.1:" + port);
            return Redisson.create(config);
        });
    }

    private List<RedissonClient> services(Request request, int client) {
        List<RedissonClient> all = new ArrayList<>();
        for (String port : request.ports) {
            all.add(service(request, port, client));
        }
        return all;
    }

    private Result run(Request request) throws Exception {
        List<Future<Result>> clients = new ArrayList<>();
        for (int i = 0; i < request.clients; i++) {
            int client = i;
            List<RedissonClient> masters = services(request, i);
            clients.add(threads.submit(() -> work(request, masters, request.base + client)));
        }
        Result sum = new Result();
        for (Future<Result> client : clients) {
            sum.merge(client.get());
        }
        return sum;
    }

    private static void sleepUntil(long at) {
        long left;
        while ((left = at - System.nanoTime()) > 0) {
            LockSupport.parkNanos(left);
        }
    }

    /** What is taken and given back by turns. */
    private interface Turns {
        void take() throws InterruptedException;

        void giveBack();
    }

    private static Turns turns(RLock lock) {
        return new Turns() {
            @Override
            public void take() {
                lock.lock();
            }

            @Override
            public void giveBack() {
                lock.unlock();
            }
        };
    }

    private static Turns turns(RPermitExpirableSemaphore permits) {
        permits.trySetPermits(1);
        return new Turns() {
            private String id;

            @Override
            public void take() throws InterruptedException {
                id = permits.acquire();
            }

            @Override
            public void giveBack() {
                permits.release(id);
            }
        };
    }

    private static Turns turns(RSemaphore semaphore) {
        semaphore.trySetPermits(1);
        return new Turns() {
            @Override
            public void take() throws InterruptedException {
                semaphore.acquire();
            }

            @Override
            public void giveBack() {
                semaphore.release();
            }
        };
    }

    /** It is there, and nobody awaits it. */
    private static Turns turns(RCountDownLatch latch) {
        return new Turns() {
            @Override
            public void take() {
                latch.trySetCount(1);
            }

            @Override
            public void giveBack() {
                latch.countDown();
            }
        };
    }

    @SuppressWarnings("deprecation")
    private static Turns turns(List<RedissonClient> masters, String kind, String name) {
        if (masters.size() > 1) {
            if (!kind.equals("lock")) {
                throw new IllegalArgumentException("of several masters: " + kind);
            }
            return turns(new RedissonRedLock(masters.stream()
                    .map(master -> master.getLock(name)).toArray(RLock[]::new)));
        }

        RedissonClient service = masters.get(0);
        switch (kind) {
            case "lock":
                return turns(service.getLock(name));
            case "fair":
                return turns(service.getFairLock(name));
            case "read":
                return turns(service.getReadWriteLock(name).readLock());
            case "write":
                return turns(service.getReadWriteLock(name).writeLock());
            case "multi": {
                RLock[] locks = new RLock[10];
                for (int i = 0; i < locks.length; i++) {
                    locks[i] = service.getLock(name + ":" + i);
                }
                return turns(service.getMultiLock(locks));
            }
            case "permit":
                return turns(service.getPermitExpirableSemaphore(name));
            case "semaphore":
                return turns(service.getSemaphore(name));
            case "latch":
                return turns(service.getCountDownLatch(name));
            default:
                throw new IllegalArgumentException("unknown kind: " + kind);
        }
    }

    private Result work(Request request, List<RedissonClient> masters, int number)
            throws InterruptedException {
        Result result = new Result();
        boolean hot = request.mode.equals("hot");
        boolean zipf = request.mode.equals("zipf");
        int key = hot ? 0 : number;
        String name = hot ? request.prefix : request.prefix + ":" + key;
        Turns lock = turns(masters, request.kind, name);

        sleepUntil(request.start);
        long begin = System.nanoTime();
        for (int place = number * 4001; result.steps == 0 || begin < request.until; place++) {
            if (zipf) {
                key = board.getInt(SEQUENCE_START + 4 * (place % SEQUENCE_SIZE));
                lock = turns(masters, request.kind, request.prefix + ":" + key);
            }

            lock.take();
            try {
                long got = System.nanoTime();
                long releasedAt = board.getLong(RELEASED_AT);
                if (hot && board.getLong(RELEASER) != number + 1 && begin < releasedAt) {
                    result.wake.add(got - releasedAt);
                }
                result.lock.add(got - begin);
                long value = board.getLong(8 * key);
                if (request.hold > 0) {
                    sleepUntil(got + request.hold);
                    board.putLong(RELEASER, number + 1);
                    board.putLong(RELEASED_AT, System.nanoTime());
                }
                board.putLong(8 * key, value + 1);
            } finally {
                lock.giveBack();
            }

            long done = System.nanoTime();
            result.steps++;
            if (done <= request.until) {
                result.pairs++;
                result.pair.add(done - begin);
            }
            if (request.pause > 0) {
                sleepUntil(done + request.pause);
                done = System.nanoTime();
            }
            begin = done;
        }
        return result;
    }
}
