package cassette.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.datastax.oss.driver.api.core.CqlSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class RegisteredTest {
    @RegisterExtension
    static final CassetteExtension CASSETTE =
            CassetteExtension.of(CassetteServer.builder().arguments("--cluster-name", "mine")).schema("users.cql");

    @Test
    void theServerHasItsOptions(CqlSession session) {
        assertEquals("mine", session.execute("SELECT cluster_name FROM system.local").one().getString(0));
        assertEquals(0, session.execute("SELECT * FROM users").all().size());
    }
}
