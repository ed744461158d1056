import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Base64;
import org.apache.cassandra.tools.INodeProbeFactory;
import org.apache.cassandra.tools.NodeProbe;
import org.apache.cassandra.tools.NodeTool;
import org.apache.cassandra.tools.Output;

/**
 * Cassandra's nodetool without the start of a Java: each line of the input is a command, its words with tabs between them. The
 * answer to each is a line, too: exit code, nanoseconds, and in Base64 what it printed.
 */
public class Nodetool {
    /** As Cassandra's own, which is not public. */
    private static class Probes implements INodeProbeFactory {
        public NodeProbe create(String host, int port) throws IOException {
            return new NodeProbe(host, port);
        }

        public NodeProbe create(String host, int port, String user, String password) throws IOException {
            return new NodeProbe(host, port, user, password);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream stream = new PrintStream(printed, true);
            NodeTool nodetool = new NodeTool(new Probes(), new Output(stream, stream));
            long began = System.nanoTime();
            int code = nodetool.execute(line.split("\t"));
            long nanos = System.nanoTime() - began;
            System.out.println(code + " " + nanos + " " + Base64.getEncoder().encodeToString(printed.toByteArray()));
        }
    }
}
