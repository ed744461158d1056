package cassette.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.datastax.oss.driver.api.core.CqlSession;
import org.junit.jupiter.api.RepeatedTest;

@CassetteTest
class FreshTest {
    @RepeatedTest(2)
    void eachTestWithoutASchemaHasItsOwnKeyspace(CqlSession session, CqlSession same) {
        assertEquals(session, same);
        session.execute("CREATE TABLE users (id int PRIMARY KEY)");
    }
}
