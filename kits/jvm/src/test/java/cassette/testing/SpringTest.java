package cassette.testing;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.oss.driver.api.core.CqlSession;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.springframework.boot.Banner;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.autoconfigure.cassandra.CassandraAutoConfiguration;
import org.springframework.boot.autoconfigure.cassandra.CassandraConnectionDetails;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** The recipe of docs/testing.md for Spring Boot. */
class SpringTest {
    @Configuration(proxyBeanMethods = false)
    static class CassetteConfiguration {
        @Bean
        CassetteServer cassette() {
            return CassetteServer.start();
        }

        @Bean
        CassandraConnectionDetails cassandra(CassetteServer server) {
            return new CassandraConnectionDetails() {
                @Override
                public List<Node> getContactPoints() {
                    return List.of(new Node(server.address().getHostString(), server.address().getPort()));
                }

                @Override
                public String getLocalDatacenter() {
                    return CassetteServer.LOCAL_DATACENTER;
                }
            };
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ImportAutoConfiguration(CassandraAutoConfiguration.class)
    static class Application {}

    @Test
    void theApplicationConnectsToTheServer() {
        Class<?>[] sources = {Application.class, CassetteConfiguration.class};
        SpringApplicationBuilder builder = new SpringApplicationBuilder(sources)
                .web(WebApplicationType.NONE)
                .bannerMode(Banner.Mode.OFF)
                .logStartupInfo(false);
        try (ConfigurableApplicationContext context = builder.run()) {
            CqlSession session = context.getBean(CqlSession.class);
            assertTrue(session.execute("SELECT release_version FROM system.local").one().getString(0).startsWith("5.0"));
        }
    }
}
