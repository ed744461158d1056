import cassette.testing.CassetteServer;
import com.datastax.oss.driver.api.core.CqlSession;

/** Starts a server and executes a query, by the shell and by the driver; prints the times since the start. */
class Start {
    public static void main(String[] arguments) {
        long began = System.nanoTime();
        try (CassetteServer server = CassetteServer.start()) {
            long ready = System.nanoTime();
            server.execute("SELECT release_version FROM system.local;");
            long queried = System.nanoTime();
            try (CqlSession session = CqlSession.builder()
                    .addContactPoint(server.address())
                    .withLocalDatacenter(CassetteServer.LOCAL_DATACENTER)
                    .build()) {
                session.execute("SELECT release_version FROM system.local").one();
                long driven = System.nanoTime();
                double[] times = {ready - began, queried - began, ready - began + driven - queried};
                System.out.printf("%.1f %.1f %.1f%n", times[0] / 1e6, times[1] / 1e6, times[2] / 1e6);
            }
        }
    }
}
