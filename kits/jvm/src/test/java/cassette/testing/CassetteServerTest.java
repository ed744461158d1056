package cassette.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CassetteServerTest {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final String KEYSPACE =
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};";

    @TempDir
    Path temporary;

    private static boolean serves(InetSocketAddress address) {
        try (Socket socket = new Socket()) {
            socket.connect(address, 1000);
            return true;
        } catch (IOException error) {
            return false;
        }
    }

    private static long entries(Path directory) throws IOException {
        try (Stream<Path> found = Files.list(directory)) {
            return found.count();
        }
    }

    @Test
    void aServerExecutesStatementsAndHasEndedAfterClose() {
        CassetteServer server = CassetteServer.start();
        assertTrue(server.execute("SELECT release_version FROM system.local;").contains("5.0"));
        assertTrue(serves(server.address()));
        server.close();
        server.close();
        assertFalse(serves(server.address()));
    }

    @Test
    void allTablesAreTruncated() {
        try (CassetteServer server = CassetteServer.start()) {
            server.truncate();
            server.execute(KEYSPACE + "CREATE TABLE k.\"T\" (k int PRIMARY KEY); INSERT INTO k.\"T\" (k) VALUES (7);");
            assertTrue(server.execute("k", "SELECT k FROM \"T\";").contains("(1 rows)"));
            server.truncate();
            assertTrue(server.execute("k", "SELECT k FROM \"T\";").contains("(0 rows)"));
        }
    }

    @Test
    void aStatementThatFailsIsAnErrorWithItsReason() {
        try (CassetteServer server = CassetteServer.start()) {
            CassetteException error =
                    assertThrows(CassetteException.class, () -> server.execute("SELECT * FROM nowhere.t;"));
            assertTrue(error.getMessage().contains("nowhere"), error.getMessage());
        }
    }

    @Test
    void aServerThatDoesNotStartIsAnErrorWithItsLog() {
        CassetteServer.Builder wrong = CassetteServer.builder().arguments("--wrong");
        CassetteException error = assertThrows(CassetteException.class, wrong::start);
        assertTrue(error.getMessage().contains("unexpected argument '--wrong'"), error.getMessage());
        CassetteServer.Builder absent = CassetteServer.builder().binary(temporary.resolve("absent"));
        assertThrows(CassetteException.class, absent::start);
    }

    @Test
    void aDirectoryKeepsItsData() {
        CassetteServer.Builder builder = CassetteServer.builder().data(temporary.resolve("data"));
        try (CassetteServer server = builder.start()) {
            server.execute(KEYSPACE);
        }
        try (CassetteServer server = builder.start()) {
            server.execute("k", "DESCRIBE KEYSPACE k;");
        }
    }

    @Test
    void aServerInMemoryForgetsItsData() {
        CassetteServer.Builder builder = CassetteServer.builder().inMemory();
        for (int start = 0; start < 2; start++) {
            try (CassetteServer server = builder.start()) {
                server.execute(KEYSPACE);
            }
        }
    }

    @Test
    void aSeedMakesUuidsAndTimesTheSameInEachRunAndAfterEachTruncation() {
        String write = "INSERT INTO t (k, id, at) VALUES (1, uuid(), toTimestamp(now()));"
                + "SELECT JSON id, at, writetime(id) FROM t;";
        List<String> seen = new ArrayList<>();
        for (long seed : new long[] {7, 7, 8}) {
            try (CassetteServer server =
                    CassetteServer.builder().inMemory().seed(seed).start()) {
                server.execute(KEYSPACE + "CREATE TABLE k.t (k int PRIMARY KEY, id uuid, at timestamp);");
                seen.add(server.execute("k", write));
                server.truncate();
                assertEquals(seen.get(seen.size() - 1), server.execute("k", write));
            }
        }
        assertEquals(seen.get(0), seen.get(1));
        assertNotEquals(seen.get(0), seen.get(2));
        assertTrue(seen.get(0).contains("2025-01-01"), seen.get(0));
    }

    @Test
    void aConfigurationFileApplies() throws IOException {
        Path config = Files.writeString(temporary.resolve("cassandra.yaml"), "cluster_name: 'of the file'\n");
        try (CassetteServer server = CassetteServer.builder().config(config).start()) {
            assertTrue(server.execute("SELECT cluster_name FROM system.local;").contains("of the file"));
        }
    }

    /** Starts a server, prints its port, and never ends by itself. */
    static final class Child {
        public static void main(String[] arguments) throws InterruptedException {
            System.out.println(CassetteServer.start().address().getPort());
            Thread.sleep(PATIENCE.multipliedBy(10).toMillis());
        }
    }

    @Test
    void theServerEndsWithAProcessThatIsKilled() throws IOException, InterruptedException {
        Path java = Path.of(System.getProperty("java.home"), "bin", "java");
        ProcessBuilder builder = new ProcessBuilder(
                java.toString(), "-cp", System.getProperty("java.class.path"), Child.class.getName());
        builder.environment().put("TMPDIR", temporary.toString());
        Process process = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
        String port = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(port));
        assertTrue(serves(address));
        process.destroyForcibly().waitFor();
        Instant deadline = Instant.now().plus(PATIENCE);
        while (serves(address) || entries(temporary) > 0) {
            assertTrue(Instant.now().isBefore(deadline), "the server outlives the process that started it");
            Thread.sleep(20);
        }
    }

    @Test
    void theBinaryOfTheVariableIsBeforeThatOfTheClassPathWhichIsBeforePath() throws IOException {
        Path named = program("named");
        Optional<Path> bundled = Optional.of(program("bundled"));
        Path onPath = program("cassette");
        Map<String, String> path = Map.of("PATH", temporary.toString());
        assertEquals(named, Binary.find(Map.of(Binary.VARIABLE, named.toString()), () -> bundled));
        assertEquals(bundled.get(), Binary.find(path, () -> bundled));
        assertEquals(onPath, Binary.find(path, Optional::empty));
        assertThrows(IllegalStateException.class, () -> Binary.find(Map.of(), Optional::empty));
        Map<String, String> directory = Map.of(Binary.VARIABLE, temporary.toString());
        assertThrows(IllegalStateException.class, () -> Binary.find(directory, () -> bundled));
    }

    private Path program(String name) throws IOException {
        Path file = Files.writeString(temporary.resolve(name), "#!/bin/sh\n");
        assertTrue(file.toFile().setExecutable(true));
        return file;
    }
}
