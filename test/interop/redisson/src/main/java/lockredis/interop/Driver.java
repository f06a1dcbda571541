// Copyright (c) 2026, lockredis contributors

package lockredis.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.SentinelServersConfig;
import org.redisson.config.SingleServerConfig;

/**
 * Redisson behind a line protocol on standard input and output.
 *
 * <p>A request is {@code <id> <target> <command> <argument>...}, a reply {@code <id> ok|error
 * <nanos> <word>...}; words are percent-encoded UTF-8, separated by one space. The target is a
 * client ({@code a}) or a thread of it ({@code a.1}). Requests to one thread run one after the
 * other in that thread, which is what owns the locks; replies come in the order in which the work
 * ends. {@code <nanos>} is {@link System#nanoTime()} right after the work, which on Linux is
 * CLOCK_MONOTONIC and so may be compared with instants of other processes.
 *
 * <p>Commands to a client: {@code connect <address> <lockWatchdogTimeout> [<password>
 * [<password of the Sentinels>]]}, {@code shutdown}. An address {@code
 * redis-sentinel://<host>:<port>,.../<service>} (or {@code rediss-sentinel}) is Redisson's sentinel
 * mode, {@code redis-cluster://<host>:<port>,...} its cluster mode; an empty password is none. For
 * several addresses with a space between, a client each is made: independent masters.
 * Commands to a thread: see {@link LockCommands}. The end of the input ends the process; clients
 * that were not shut down leave their locks to expire.
 */
public final class Driver {

    private final Map<String, List<RedissonClient>> clients = new HashMap<>();
    private final Map<String, ExecutorService> threads = new HashMap<>();
    private final PrintStream out;

    private Driver(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] args) throws IOException {
        Driver driver = new Driver(new PrintStream(System.out, false, StandardCharsets.US_ASCII));
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));

        int status = 0;
        try {
            String line;
            while ((line = in.readLine()) != null) {
                driver.dispatch(line);
            }
        } catch (RuntimeException e) {
            e.printStackTrace();
            status = 1;
        }
        // Not exit(): nothing may be released by a shutdown hook.
        Runtime.getRuntime().halt(status);
    }

    /** The work of one request. */
    @FunctionalInterface
    private interface Work {
        List<String> run() throws Exception;
    }

    private void dispatch(String line) {
        String[] words = line.split(" ", -1);
        for (int i = 0; i < words.length; i++) {
            words[i] = URLDecoder.decode(words[i], StandardCharsets.UTF_8);
        }
        String id = words[0];
        String target = words[1];
        String command = words[2];
        List<String> arguments = Arrays.asList(words).subList(3, words.length);

        int dot = target.indexOf('.');
        if (dot < 0) {
            run(id, () -> clientCommand(target, command, arguments));
            return;
        }

        List<RedissonClient> masters = clients.get(target.substring(0, dot));
        if (masters == null) {
            run(id, () -> {
                throw new IllegalArgumentException("no such client: " + target);
            });
            return;
        }
        threads.computeIfAbsent(target, name -> Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        })).execute(() -> run(id, () -> LockCommands.run(masters, command, arguments)));
    }

    private List<String> clientCommand(String name, String command, List<String> arguments) {
        switch (command) {
            case "connect":
                if (clients.containsKey(name)) {
                    throw new IllegalArgumentException("client exists: " + name);
                }
                String[] addresses = arguments.get(0).split(" ");
                List<RedissonClient> made = new ArrayList<>();
                for (String address : addresses) {
                    made.add(connect(address, Long.parseLong(arguments.get(1)),
                            word(arguments, 2), word(arguments, 3), addresses.length > 1));
                }
                clients.put(name, made);
                return made.stream().map(RedissonClient::getId).collect(Collectors.toList());
            case "shutdown":
                List<RedissonClient> ended = clients.remove(name);
                if (ended == null) {
                    throw new IllegalArgumentException("no such client: " + name);
                }
                threads.entrySet().removeIf(entry -> {
                    boolean ours = entry.getKey().startsWith(name + ".");
                    if (ours) {
                        entry.getValue().shutdownNow();
                    }
                    return ours;
                });
                ended.forEach(RedissonClient::shutdown);
                return List.of();
            default:
                throw new IllegalArgumentException("unknown command: " + command);
        }
    }

    /** null where it is missing or empty. */
    private static String word(List<String> arguments, int index) {
        return index >= arguments.size() || arguments.get(index).isEmpty()
                ? null
                : arguments.get(index);
    }

    private static RedissonClient connect(
            String address, long lockWatchdogTimeout, String password, String sentinelPassword,
            boolean oneOfSeveral) {
        Config config = new Config();
        config.setLockWatchdogTimeout(lockWatchdogTimeout);
        config.setPassword(password);
        // The defaults open 24 connections at once and poll name servers.
        String[] sides = address.split("-sentinel://");
        if (sides.length == 2) {
            String[] parts = sides[1].split("/");
            SentinelServersConfig servers = config.useSentinelServers()
                    .setMasterName(parts[1])
                    .setSentinelPassword(sentinelPassword)
                    .setMasterConnectionMinimumIdleSize(1)
                    .setSlaveConnectionMinimumIdleSize(1)
                    .setDnsMonitoringInterval(-1);
            for (String sentinel : parts[0].split(",")) {
                servers.addSentinelAddress(sides[0] + "://" + sentinel);
            }
        } else if (address.contains("-cluster://")) {
            String[] parts = address.split("-cluster://");
            ClusterServersConfig servers = config.useClusterServers()
                    .setScanInterval(1000)
                    .setMasterConnectionMinimumIdleSize(1)
                    .setSlaveConnectionMinimumIdleSize(1)
                    .setDnsMonitoringInterval(-1);
            for (String node : parts[1].split(",")) {
                servers.addNodeAddress(parts[0] + "://" + node);
            }
        } else {
            // A command that was slow is not sent twice: a lock would be taken twice.
            SingleServerConfig server = config.useSingleServer()
                    .setAddress(address)
                    .setConnectTimeout(60_000)
                    .setTimeout(60_000)
                    .setConnectionMinimumIdleSize(1)
                    .setDnsMonitoringInterval(-1);
            if (oneOfSeveral) {
                // One that is gone holds nobody up.
                server.setRetryAttempts(0);
            }
        }
        return Redisson.create(config);
    }

    private void run(String id, Work work) {
        String status;
        List<String> words;
        long nanos;
        try {
            words = work.run();
            nanos = System.nanoTime();
            status = "ok";
        } catch (Exception e) {
            nanos = System.nanoTime();
            status = "error";
            words = List.of(e.getClass().getSimpleName(), String.valueOf(e.getMessage()));
        }

        StringBuilder reply = new StringBuilder();
        reply.append(id).append(' ').append(status).append(' ').append(nanos);
        for (String word : words) {
            reply.append(' ').append(URLEncoder.encode(word, StandardCharsets.UTF_8));
        }
        reply.append('\n');
        synchronized (out) {
            out.print(reply);
            out.flush();
        }
    }
}
