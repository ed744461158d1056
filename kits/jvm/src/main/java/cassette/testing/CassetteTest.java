package cassette.testing;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Tests with a server that all such classes share.
 *
 * <p>Parameters of type {@code CqlSession} and {@link CassetteServer} are injected; see {@link CassetteExtension}.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Inherited
@ExtendWith(CassetteExtension.class)
public @interface CassetteTest {
    /** The schema of the session's keyspace: files of CQL in the class path, executed once. */
    String[] schema() default {};
}
