package cassette.testing;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import com.datastax.oss.driver.api.core.CqlSession;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.platform.testkit.engine.EngineTestKit;
import org.junit.platform.testkit.engine.Events;

/** What users see of tests that fail. */
class ExtensionTest {
    private static Events run(Class<?> type) {
        return EngineTestKit.engine("junit-jupiter").selectors(selectClass(type)).execute().testEvents();
    }

    @Test
    void aMistakeInASchemaIsShown() {
        Throwable error = run(WithWrongSchema.class)
                .failed()
                .stream()
                .findFirst()
                .orElseThrow()
                .getRequiredPayload(org.junit.platform.engine.TestExecutionResult.class)
                .getThrowable()
                .orElseThrow();
        assertTrue(error.getMessage().contains("wrong.cql"), error.getMessage());
    }

    @Test
    void aFailureShowsTheLogOfTheServer() {
        PrintStream standard = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setErr(new PrintStream(printed, true));
        try {
            run(Failing.class).assertStatistics(statistics -> statistics.failed(1));
        } finally {
            System.setErr(standard);
        }
        assertTrue(printed.toString().contains("log of cassette after fails(CassetteServer):"), printed.toString());
    }

    @Tag("launched")
    @CassetteTest(schema = "wrong.cql")
    static class WithWrongSchema {
        @Test
        void neverStarts(CqlSession session) {}
    }

    @Tag("launched")
    @CassetteTest
    static class Failing {
        @Test
        void fails(CassetteServer server) {
            fail("on purpose");
        }
    }
}
