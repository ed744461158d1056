package cassette.testing;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.ExecutionException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * A server on a free port of 127.0.0.1, with its data in a temporary directory that it removes at its end.
 *
 * <p>The server ends with this process, however that ends.
 */
public final class CassetteServer implements AutoCloseable {
    /** The name of the data center. */
    public static final String LOCAL_DATACENTER = "datacenter1";

    /** The line that the server prints when clients can connect. */
    private static final Pattern READY = Pattern.compile("listens for CQL on ([^ ,]+):(\\d+)");

    /** How long to wait for the end, seconds: the server waits 10 for requests and 2 for files. */
    private static final long STOP_SECONDS = 15;

    /** A row of system_schema.tables as JSON. */
    private static final Pattern TABLE = Pattern.compile("\\{\"keyspace_name\": \"(\\w+)\", \"table_name\": \"(\\w+)\"}");

    /** Lets UUIDs and times of a server with a seed start again. */
    static final String RESET_CLOCK = "TRUNCATE system_testing.cassette_clock";

    private final Path binary;
    private final Process process;
    private final Log log;
    private final InetSocketAddress address;
    private final boolean hasSeed;
    private final Faults faults = new Faults(this);

    private CassetteServer(Builder builder) throws IOException {
        binary = builder.binary != null ? builder.binary : Binary.find();
        List<String> command = new ArrayList<>(
                List.of(binary.toString(), "serve", "--listen", "127.0.0.1:0", "--admin", "off", "--stop-with-stdin"));
        command.addAll(builder.data);
        if (builder.config != null) {
            command.addAll(List.of("--config", builder.config.toString()));
        }
        if (builder.faultInjection) {
            command.add("--fault-injection");
        }
        if (builder.nodes != null) {
            command.addAll(List.of("--nodes", builder.nodes));
        }
        hasSeed = builder.seed != null;
        if (hasSeed) {
            command.addAll(List.of("--seed", builder.seed.toString()));
        }
        command.addAll(builder.arguments);
        process = new ProcessBuilder(command).start();
        log = new Log(process.getErrorStream());
        address = awaitReady(builder.timeout);
    }

    /**
     * Starts a server, and returns when clients can connect.
     *
     * @throws CassetteException if it does not start
     */
    public static CassetteServer start() {
        return builder().start();
    }

    /** Returns a builder, for servers with options. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns the address for drivers. */
    public InetSocketAddress address() {
        return address;
    }

    /** Returns what the server has logged: the end of it, if it is long. */
    public String log() {
        return log.toString();
    }

    /**
     * Executes statements with {@code cassette cql}, and returns what it prints.
     *
     * @throws CassetteException if one fails
     */
    public String execute(String statements) {
        return shell(List.of(), statements);
    }

    /** Executes statements in a keyspace, as {@link #execute(String)} does. */
    public String execute(String keyspace, String statements) {
        return shell(List.of("--keyspace", keyspace), statements);
    }

    /** Returns the rules of injected faults. */
    public Faults faults() {
        return faults;
    }

    /**
     * Changes the state of a virtual node: {@code up}, {@code down} or {@code removed}. Take another one down than
     * that of {@link #address()}, through which this class connects.
     */
    public void setNode(String node, String state) {
        execute("UPDATE system_testing.cassette_nodes SET state = " + Faults.literal(state) + " WHERE address = "
                + Faults.literal(node) + ";");
    }

    /** Truncates all tables of all keyspaces, except those of the system. With a seed, UUIDs and times start again. */
    public void truncate() {
        String rows = shell(List.of("--format", "json"), "SELECT keyspace_name, table_name FROM system_schema.tables;");
        String truncations = TABLE.matcher(rows)
                .results()
                .filter(table -> !table.group(1).startsWith("system"))
                .map(table -> "TRUNCATE \"" + table.group(1) + "\".\"" + table.group(2) + "\";")
                .collect(Collectors.joining());
        if (!truncations.isEmpty()) {
            execute(truncations);
        }
        if (hasSeed) {
            execute(RESET_CLOCK + ";");
        }
    }

    /** Returns whether UUIDs and times follow from a seed. */
    boolean hasSeed() {
        return hasSeed;
    }

    /** Stops the server, which removes its temporary data. Later calls do nothing. */
    @Override
    public void close() {
        try {
            process.getOutputStream().close();
        } catch (IOException ignored) {
            // The server has ended.
        }
        try {
            if (!process.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    /** Executes statements from the standard input of the shell, where they can be of any length. */
    private String shell(List<String> options, String statements) {
        List<String> command = new ArrayList<>(List.of(binary.toString(), "cql", address.getHostString() + ":"
                + address.getPort(), "--no-color", "--cqlshrc", "/dev/null", "--file", "-"));
        command.addAll(options);
        try {
            Path errors = Files.createTempFile("cassette", ".err");
            try {
                Process shell = new ProcessBuilder(command).redirectError(errors.toFile()).start();
                // It reads all input before it prints.
                try (OutputStream input = shell.getOutputStream()) {
                    input.write(statements.getBytes(StandardCharsets.UTF_8));
                }
                String printed;
                try (InputStream output = shell.getInputStream()) {
                    printed = new String(output.readAllBytes(), StandardCharsets.UTF_8);
                }
                if (shell.waitFor() != 0) {
                    throw new CassetteException(Files.readString(errors).strip());
                }
                return printed;
            } finally {
                Files.delete(errors);
            }
        } catch (IOException error) {
            throw new CassetteException("cannot execute statements", error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new CassetteException("interrupted", error);
        }
    }

    private InetSocketAddress awaitReady(Duration timeout) {
        CompletableFuture<InetSocketAddress> ready = new CompletableFuture<>();
        Thread reader = new Thread(() -> readOutput(ready), "cassette-output");
        reader.setDaemon(true);
        reader.start();
        String problem;
        try {
            return ready.get(timeout.toMillis(), TimeUnit.MILLISECONDS);
        } catch (ExecutionException error) {
            problem = "the server ended";
            // Destroying the process closes the pipe of its log, which must be read first.
            log.awaitEnd();
        } catch (TimeoutException error) {
            problem = "the server was not ready within " + timeout.toMillis() + " ms";
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            problem = "interrupted";
        }
        process.destroyForcibly();
        close();
        throw new CassetteException(problem + "\n" + log);
    }

    private void readOutput(CompletableFuture<InetSocketAddress> ready) {
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                Matcher found = READY.matcher(line);
                if (found.find()) {
                    ready.complete(new InetSocketAddress(found.group(1), Integer.parseInt(found.group(2))));
                }
            }
        } catch (IOException ignored) {
            // The server has ended.
        }
        ready.completeExceptionally(new IOException("the end of the output"));
    }

    /** How a server is started. */
    public static final class Builder {
        private Path binary;
        private List<String> data = List.of("--temporary");
        private Path config;
        private boolean faultInjection;
        private String nodes;
        private Long seed;
        private List<String> arguments = List.of();
        private Duration timeout = Duration.ofSeconds(30);

        private Builder() {}

        /** Selects the binary, instead of that of CASSETTE_BINARY, of the class path, or on PATH. */
        public Builder binary(Path binary) {
            this.binary = binary;
            return this;
        }

        /** Keeps the data in a directory, instead of a temporary one. */
        public Builder data(Path data) {
            this.data = List.of("--data", data.toString());
            return this;
        }

        /** Keeps all files in memory, instead of a temporary directory. */
        public Builder inMemory() {
            this.data = List.of("--in-memory");
            return this;
        }

        /** Selects a configuration file with keys of cassandra.yaml. */
        public Builder config(Path config) {
            this.config = config;
            return this;
        }

        /** Lets tests add {@link CassetteServer#faults()}. */
        public Builder faultInjection() {
            faultInjection = true;
            return this;
        }

        /** Presents virtual nodes: a number of them, or their places, as in {@code --nodes}. */
        public Builder nodes(String nodes) {
            this.nodes = nodes;
            return this;
        }

        /** Makes UUIDs and times the same in each run, and after each {@link CassetteServer#truncate()}. */
        public Builder seed(long seed) {
            if (seed < 0) {
                throw new IllegalArgumentException("expected a seed of at least 0, found " + seed);
            }
            this.seed = seed;
            return this;
        }

        /** Adds arguments of {@code cassette serve}. */
        public Builder arguments(String... arguments) {
            this.arguments = List.of(arguments);
            return this;
        }

        /** Sets how long to wait for the server, 30 seconds by default. */
        public Builder timeout(Duration timeout) {
            this.timeout = timeout;
            return this;
        }

        /**
         * Starts the server, and returns when clients can connect.
         *
         * @throws CassetteException if it does not start
         */
        public CassetteServer start() {
            try {
                return new CassetteServer(this);
            } catch (IOException error) {
                throw new CassetteException("cannot start Cassette", error);
            }
        }
    }
}
