package cassette.testing;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.Row;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.extension.ExtensionContext.Store.CloseableResource;

/** A server with its sessions, each in a keyspace. */
final class Sessions implements CloseableResource {
    private static final String REPLICATION = "{'class': 'SimpleStrategy', 'replication_factor': 1}";

    private final CassetteServer server;
    private final CqlSession admin;
    private final Map<List<String>, Fresh> shared = new HashMap<>();
    private int created;

    Sessions(CassetteServer server) {
        this.server = server;
        admin = connect().build();
    }

    CassetteServer server() {
        return server;
    }

    /** Returns the session of all tests with a schema. An earlier test may have used another keyspace. */
    synchronized CqlSession shared(List<String> schema, ClassLoader loader) {
        Fresh existing = shared.get(schema);
        if (existing == null) {
            String keyspace = create();
            for (String file : schema) {
                try {
                    server.execute(keyspace, read(file, loader));
                } catch (CassetteException error) {
                    throw new CassetteException(file + ": " + error.getMessage(), error);
                }
            }
            // Rows of the schema must not make the first test differ from the others.
            resetClock();
            existing = new Fresh(keyspace);
            shared.put(schema, existing);
        }
        existing.session.execute("USE " + existing.keyspace);
        return existing.session;
    }

    /** Returns a session in an empty keyspace. */
    synchronized Fresh fresh() {
        return new Fresh(create());
    }

    /** A session in a keyspace, which is dropped when this is closed. */
    final class Fresh implements CloseableResource {
        private final String keyspace;
        final CqlSession session;

        private Fresh(String keyspace) {
            this.keyspace = keyspace;
            session = connect().withKeyspace(keyspace).build();
        }

        @Override
        public void close() {
            session.close();
            // A server that was stopped has no keyspaces.
            if (!admin.isClosed()) {
                admin.execute("DROP KEYSPACE IF EXISTS " + keyspace);
            }
        }
    }

    private String create() {
        String keyspace = "test_" + created++;
        admin.execute("CREATE KEYSPACE " + keyspace + " WITH replication = " + REPLICATION);
        return keyspace;
    }

    void truncate() {
        for (Row row : admin.execute("SELECT keyspace_name, table_name FROM system_schema.tables")) {
            String keyspace = row.getString(0);
            if (keyspace != null && !keyspace.startsWith("system")) {
                admin.execute("TRUNCATE \"" + keyspace + "\".\"" + row.getString(1) + "\"");
            }
        }
        resetClock();
    }

    private void resetClock() {
        if (server.hasSeed()) {
            admin.execute(CassetteServer.RESET_CLOCK);
        }
    }

    @Override
    public synchronized void close() {
        shared.values().forEach(fresh -> fresh.session.close());
        admin.close();
        server.close();
    }

    private CqlSessionBuilder connect() {
        DriverConfigLoader config = DriverConfigLoader.programmaticBuilder()
                .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(10))
                .build();
        return CqlSession.builder()
                .withConfigLoader(config)
                .addContactPoint(server.address())
                .withLocalDatacenter(CassetteServer.LOCAL_DATACENTER);
    }

    private static String read(String file, ClassLoader loader) {
        try (InputStream stream = loader.getResourceAsStream(file)) {
            if (stream == null) {
                throw new CassetteException("the class path has no " + file);
            }
            return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException error) {
            throw new UncheckedIOException("cannot read " + file, error);
        }
    }
}
