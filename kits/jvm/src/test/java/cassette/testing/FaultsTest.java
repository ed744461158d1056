package cassette.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.servererrors.UnavailableException;
import com.datastax.oss.driver.api.core.servererrors.WriteTimeoutException;
import java.util.Map;
import org.junit.jupiter.api.Test;

class FaultsTest {
    private static final String SCHEMA =
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3};"
                    + "CREATE TABLE k.t (k int PRIMARY KEY);";

    private static CqlSession connect(CassetteServer server) {
        return CqlSession.builder()
                .addContactPoint(server.address())
                .withLocalDatacenter(CassetteServer.LOCAL_DATACENTER)
                .build();
    }

    @Test
    void aFaultIsTheErrorThatTheDriverReports() {
        try (CassetteServer server = CassetteServer.builder().faultInjection().start();
                CqlSession session = connect(server)) {
            server.execute(SCHEMA);
            String fault = server.faults().add("write_timeout", Map.of("write_type", "CDC", "applied", true));
            WriteTimeoutException failed =
                    assertThrows(WriteTimeoutException.class, () -> session.execute("INSERT INTO k.t (k) VALUES (1)"));
            assertEquals("CDC", failed.getWriteType().name());
            server.faults().remove(fault);
            assertNotNull(session.execute("SELECT k FROM k.t WHERE k = 1").one(), "it was applied");
            CassetteException refused =
                    assertThrows(CassetteException.class, () -> server.faults().add("it's"));
            assertTrue(refused.getMessage().contains("effect: expected one of"), refused.getMessage());
            server.faults().clear();
        }
    }

    @Test
    void aNodeThatIsDownMakesALevelUnavailable() {
        try (CassetteServer server = CassetteServer.builder().nodes("3").start();
                CqlSession session = connect(server)) {
            server.execute(SCHEMA);
            SimpleStatement read = SimpleStatement.newInstance("SELECT k FROM k.t WHERE k = 1")
                    .setConsistencyLevel(ConsistencyLevel.ALL)
                    .setIdempotent(true);
            session.execute(read);
            server.setNode("127.0.0.3", "down");
            UnavailableException failed = assertThrows(UnavailableException.class, () -> session.execute(read));
            assertEquals(3, failed.getRequired());
            assertEquals(2, failed.getAlive());
            server.setNode("127.0.0.3", "up");
            session.execute(read);
        }
    }
}
