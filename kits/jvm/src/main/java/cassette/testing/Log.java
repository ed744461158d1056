package cassette.testing;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/** The end of what a process logs, read by a thread so that the process never waits. */
final class Log {
    private static final int LENGTH_MAX = 1 << 20;

    private final StringBuilder text = new StringBuilder();
    private final Thread reader;

    Log(InputStream stream) {
        reader = new Thread(() -> read(stream), "cassette-log");
        reader.setDaemon(true);
        reader.start();
    }

    /** Waits until the process has ended and everything is read. */
    void awaitEnd() {
        try {
            reader.join(TimeUnit.SECONDS.toMillis(5));
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private void read(InputStream stream) {
        byte[] buffer = new byte[4096];
        try {
            for (int length = stream.read(buffer); length >= 0; length = stream.read(buffer)) {
                append(new String(buffer, 0, length, StandardCharsets.UTF_8));
            }
        } catch (IOException ignored) {
            // The process has ended.
        }
    }

    private synchronized void append(String more) {
        text.append(more);
        if (text.length() > 2 * LENGTH_MAX) {
            text.delete(0, text.length() - LENGTH_MAX);
        }
    }

    @Override
    public synchronized String toString() {
        return text.toString();
    }
}
