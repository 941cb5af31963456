import java.io.FileReader;
import java.io.IOException;
import java.lang.reflect.Field;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import kafka.server.ControllerServer;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.utils.Time;
import scala.Option;

/**
 * One Kafka broker and controller in this JVM: {@code Broker server.properties clockShiftMs}. It prints "ready" on a line
 * of its own once the broker accepts requests, and shuts down cleanly on SIGTERM.
 *
 * <p>It differs from Kafka's own main class in three things: it prints this line, its controller then waits an hour for
 * a heartbeat, and its wall clock may be shifted. A killed broker can register again only when its session is over, so
 * sessions are short at first; later a broker must not be fenced because the machine is slow. The producers that Kafka
 * keeps at its start depend on the day (producer.id.expiration.ms). A broker that loads a directory of last year
 * therefore needs a clock of last year.
 */
public final class Broker {
    private Broker() {
    }

    public static void main(String[] arguments) throws Exception {
        KafkaRaftServer server = create(arguments[0], Long.parseLong(arguments[1]));
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdown, "orderly-stop"));
        try {
            server.startup();
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        waitForHeartbeats(server);
        System.out.println("ready");
        server.awaitShutdown();
    }

    /** Returns a broker with the settings of a file and a shifted clock. It is not started. */
    static KafkaRaftServer create(String settings, long clockShiftMs) throws IOException {
        Properties properties = new Properties();
        try (FileReader file = new FileReader(settings)) {
            properties.load(file);
        }
        return new KafkaRaftServer(new KafkaConfig(properties, false), new ShiftedTime(clockShiftMs));
    }

    /** Makes the controller wait an hour for a heartbeat. The broker must have started. */
    static void waitForHeartbeats(KafkaRaftServer server) throws ReflectiveOperationException {
        ControllerServer controller = (ControllerServer) ((Option<?>) valueOf(server, "controller")).get();
        Object brokers = valueOf(controller.controller(), "clusterControl");
        Object heartbeats = valueOf(valueOf(brokers, "heartbeatManager"), "tracker");
        field(heartbeats, "sessionTimeoutNs").setLong(heartbeats, TimeUnit.HOURS.toNanos(1));
    }

    private static Object valueOf(Object owner, String name) throws ReflectiveOperationException {
        return field(owner, name).get(owner);
    }

    private static Field field(Object owner, String name) throws ReflectiveOperationException {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
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
