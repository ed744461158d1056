package cassette.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.Row;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@CassetteTest(schema = "users.cql")
class UsersTest {
    @ParameterizedTest
    @ValueSource(strings = {"ada", "grace"})
    void theOnlyUser(String name, CqlSession session) {
        session.execute("INSERT INTO users (id, name) VALUES (?, ?)", name.length(), name);
        List<Row> rows = session.execute("SELECT name FROM users").all();
        session.execute("USE system"); // Does not disturb the next test.
        assertEquals(List.of(name), rows.stream().map(row -> row.getString("name")).collect(Collectors.toList()));
    }
}
