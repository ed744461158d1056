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

/** A server with its sessions: one for each schema, in its own keyspace. */
final class Sessions implements CloseableResource {
    private static final String REPLICATION = "{'class': 'SimpleStrategy', 'replication_factor': 1}";

    private final CassetteServer server;
    private final CqlSession admin;
    private final Map<List<String>, CqlSession> sessions = new HashMap<>();

    Sessions(CassetteServer server) {
        this.server = server;
        admin = connect().build();
    }

    CassetteServer server() {
        return server;
    }

    /** Returns the session in the keyspace with a schema, which is created before the first use. */
    synchronized CqlSession of(List<String> schema, ClassLoader loader) {
        CqlSession existing = sessions.get(schema);
        if (existing != null) {
            return existing;
        }
        String keyspace = "test_" + sessions.size();
        // What an earlier attempt with a wrong file has created.
        admin.execute("DROP KEYSPACE IF EXISTS " + keyspace);
        admin.execute("CREATE KEYSPACE " + keyspace + " WITH replication = " + REPLICATION);
        for (String file : schema) {
            try {
                server.execute(keyspace, read(file, loader));
            } catch (CassetteException error) {
                throw new CassetteException(file + ": " + error.getMessage(), error);
            }
        }
        CqlSession session = connect().withKeyspace(keyspace).build();
        sessions.put(schema, session);
        return session;
    }

    void truncate() {
        for (Row row : admin.execute("SELECT keyspace_name, table_name FROM system_schema.tables")) {
            String keyspace = row.getString(0);
            if (keyspace != null && !keyspace.startsWith("system")) {
                admin.execute("TRUNCATE \"" + keyspace + "\".\"" + row.getString(1) + "\"");
            }
        }
    }

    @Override
    public synchronized void close() {
        sessions.values().forEach(CqlSession::close);
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
