import java.io.BufferedReader;
import java.io.InputStreamReader;
import kafka.server.KafkaRaftServer;

/**
 * Brokers that run one after the other in this JVM, which saves the start of a JVM for each. A line on stdin, {@code
 * server.properties<TAB>clockShiftMs}, starts a broker, and the next line, of any text, stops it. Prints "ready" and
 * "stopped". A broker that cannot start ends the JVM with its stack trace. {@link Broker} says how they differ from
 * Kafka's own main class.
 */
public final class BrokerRuns {
    private BrokerRuns() {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = commands.readLine()) != null) {
            String[] parts = line.split("\t");
            KafkaRaftServer server = Broker.create(parts[0], Long.parseLong(parts[1]));
            try {
                server.startup();
            } catch (Throwable error) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
            Broker.waitForHeartbeats(server);
            System.out.println("ready");
            commands.readLine();
            server.shutdown();
            server.awaitShutdown();
            System.out.println("stopped");
        }
        Runtime.getRuntime().halt(0);
    }
}
