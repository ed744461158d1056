package cassette.testing;

import com.datastax.oss.driver.api.core.CqlSession;
import java.util.List;
import java.util.function.Supplier;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Injects a {@code CqlSession} and a {@link CassetteServer} into tests, and truncates all tables after each test.
 *
 * <p>With {@link CassetteTest} or {@code @ExtendWith}, all classes share a server, which is stopped at the end of the
 * run. An extension with {@code @RegisterExtension} and {@link #of} has its own server. The session's keyspace has the
 * schema of {@link CassetteTest#schema} or {@link #schema}; tests with the same schema share it. Without a schema, each
 * test has its own keyspace, which is dropped afterwards. If a test fails, the end of the server's log is printed to the
 * standard error.
 *
 * <p>Tests that share a server must not run in parallel, because tables are truncated.
 */
public final class CassetteExtension implements ParameterResolver, AfterEachCallback {
    private static final Namespace NAMESPACE = Namespace.create(CassetteExtension.class);

    /** How much of the log is printed, characters. */
    private static final int LOG_MAX = 10_000;

    private final Supplier<CassetteServer> start;
    private final Object key;
    private List<String> schema = List.of();

    /** Creates the extension that shares its server with others. */
    public CassetteExtension() {
        start = CassetteServer::start;
        key = CassetteServer.class;
    }

    private CassetteExtension(CassetteServer.Builder builder) {
        start = builder::start;
        key = this;
    }

    /** Creates an extension with its own server. */
    public static CassetteExtension of(CassetteServer.Builder builder) {
        return new CassetteExtension(builder);
    }

    /** Sets the schema of the session's keyspace: files of CQL in the class path. */
    public CassetteExtension schema(String... files) {
        schema = List.of(files);
        return this;
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        Class<?> type = parameter.getParameter().getType();
        return type == CqlSession.class || type == CassetteServer.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        Sessions sessions = store(context).getOrComputeIfAbsent(key, ignored -> new Sessions(start.get()), Sessions.class);
        if (parameter.getParameter().getType() == CassetteServer.class) {
            return sessions.server();
        }
        List<String> files = schemaOf(context);
        if (!files.isEmpty()) {
            return sessions.shared(files, context.getRequiredTestClass().getClassLoader());
        }
        // The store of the test, or of the class for @BeforeAll, is closed at its end.
        return context.getStore(NAMESPACE)
                .getOrComputeIfAbsent(sessions, ignored -> sessions.fresh(), Sessions.Fresh.class)
                .session;
    }

    @Override
    public void afterEach(ExtensionContext context) {
        Sessions sessions = store(context).get(key, Sessions.class);
        if (sessions == null) {
            return;
        }
        if (context.getExecutionException().isPresent()) {
            String log = sessions.server().log();
            String end = log.substring(Math.max(0, log.length() - LOG_MAX));
            System.err.println("log of cassette after " + context.getDisplayName() + ":\n" + end);
        }
        sessions.truncate();
    }

    private static Store store(ExtensionContext context) {
        // The root context is closed at the end of the run, with what its store contains.
        return context.getRoot().getStore(NAMESPACE);
    }

    private List<String> schemaOf(ExtensionContext context) {
        if (!schema.isEmpty()) {
            return schema;
        }
        for (Class<?> type = context.getRequiredTestClass(); type != null; type = type.getEnclosingClass()) {
            CassetteTest annotation = type.getAnnotation(CassetteTest.class);
            if (annotation != null) {
                return List.of(annotation.schema());
            }
        }
        return List.of();
    }
}
