package cassette.testing;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;

/**
 * The rules of injected faults of a server that was started with {@link CassetteServer.Builder#faultInjection()}.
 *
 * <p>The columns of a rule are those of the table {@code system_testing.cassette_faults}, which docs/testing.md
 * describes.
 */
public final class Faults {
    private static final String TABLE = "system_testing.cassette_faults";

    private final CassetteServer server;
    private final AtomicLong count = new AtomicLong();

    Faults(CassetteServer server) {
        this.server = server;
    }

    /**
     * Adds a rule, and returns its id. Rules are tried in the order of these calls.
     *
     * @param columns texts, numbers and booleans
     * @throws CassetteException if a column has a value that it cannot have
     */
    public String add(String effect, Map<String, ?> columns) {
        String id = String.format("fault-%06d", count.incrementAndGet());
        Map<String, Object> rule = new LinkedHashMap<>();
        rule.put("id", id);
        rule.put("effect", effect);
        rule.putAll(columns);
        String values = rule.values().stream().map(Faults::literal).collect(Collectors.joining(", "));
        server.execute("INSERT INTO " + TABLE + " (" + String.join(", ", rule.keySet()) + ") VALUES (" + values + ");");
        return id;
    }

    /** Adds a rule for all requests that can have this effect, as {@link #add(String, Map)} does. */
    public String add(String effect) {
        return add(effect, Map.of());
    }

    /** Removes a rule. Does nothing if it does not exist. */
    public void remove(String id) {
        server.execute("DELETE FROM " + TABLE + " WHERE id = " + literal(id) + ";");
    }

    /** Removes all rules. */
    public void clear() {
        server.execute("TRUNCATE " + TABLE + ";");
    }

    static String literal(Object value) {
        return value instanceof String ? "'" + ((String) value).replace("'", "''") + "'" : String.valueOf(value);
    }
}
