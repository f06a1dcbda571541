// Copyright (c) 2026, lockredis contributors

package lockredis.interop;

import java.io.Closeable;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Appends to a history as test/fault/history.md describes it, one write a line. */
final class History implements Closeable {

    private final OutputStream file;
    private final String client;

    History(String path, String client) throws IOException {
        this.file = Files.newOutputStream(
                Path.of(path), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        this.client = client;
    }

    void add(String op, String key, long start, long end, String result) throws IOException {
        String line = "{\"client\":" + quote(client)
                + ",\"end_ns\":" + end
                + ",\"key\":" + quote(key)
                + ",\"op\":" + quote(op)
                + ",\"result\":" + quote(result)
                + ",\"start_ns\":" + start
                + "}\n";
        file.write(line.getBytes(StandardCharsets.US_ASCII));
    }

    private static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (byte b : text.getBytes(StandardCharsets.UTF_8)) {
            if (b < ' ' || b == '"' || b == '\\') {
                quoted.append(String.format("\\u%04x", b & 0xff));
            } else {
                quoted.append((char) b);
            }
        }
        return quoted.append('"').toString();
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
