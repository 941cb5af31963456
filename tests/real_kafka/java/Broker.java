import java.io.FileReader;
import java.util.Properties;
import java.util.function.Supplier;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.utils.Time;

/**
 * One Kafka broker and controller in this JVM: {@code Broker server.properties clockShiftMs}. Prints "ready" on a line
 * of its own once the broker takes requests, and stops in an orderly way on SIGTERM.
 *
 * <p>It differs from Kafka's own main class in two things: the line that says when, and a wall clock that may be
 * shifted. What Kafka keeps of a producer at its start depends on the day (producer.id.expiration.ms), so a directory
 * from last year is only loaded as it was meant to be by a broker that believes it is last year.
 */
public final class Broker {
    private Broker() {
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileReader file = new FileReader(arguments[0])) {
            properties.load(file);
        }
        Time time = new ShiftedTime(Long.parseLong(arguments[1]));
        KafkaRaftServer server = new KafkaRaftServer(new KafkaConfig(properties, false), time);
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdown, "orderly-stop"));
        try {
            server.startup();
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        System.out.println("ready");
        server.awaitShutdown();
    }

    /** The system's clock, its wall time moved by a constant. */
    private record ShiftedTime(long shiftMs) implements Time {
        @Override
        public long milliseconds() {
            return SYSTEM.milliseconds() + shiftMs;
        }

        @Override
        public long nanoseconds() {
            return SYSTEM.nanoseconds();
        }

        @Override
        public void sleep(long ms) {
            SYSTEM.sleep(ms);
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs)
                throws InterruptedException {
            SYSTEM.waitObject(object, condition, deadlineMs - shiftMs);
        }
    }
}
