import java.io.File;
import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Partition directories as a broker opens them. */
final class Logs {
    private static final int HOUR_MS = 3_600_000;
    private static final int DAY_MS = 24 * HOUR_MS;
    private static final Scheduler SCHEDULER = new KafkaScheduler(1, true);
    private static final BrokerTopicStats STATISTICS = new BrokerTopicStats();

    static {
        SCHEDULER.startup();
    }

    private Logs() {
    }

    /** Load a partition directory; after an unclean stop everything from offset 0 on is recovered. */
    static UnifiedLog open(File directory, Map<String, String> config, boolean cleanlyStopped) throws IOException {
        return UnifiedLog.create(directory, new LogConfig(config), 0L, 0L, SCHEDULER, STATISTICS, Time.SYSTEM, 5 * 60_000,
            new ProducerStateManagerConfig(DAY_MS, false), HOUR_MS, new LogDirFailureChannel(1), cleanlyStopped,
            Optional.empty(), new ConcurrentHashMap<>(), false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
    }

    /** The .log files of a partition directory, sorted by name. */
    static File[] segments(File directory) {
        File[] files = directory.listFiles((parent, name) -> name.endsWith(".log"));
        Arrays.sort(files);
        return files;
    }

    static long bytes(File directory) {
        return Arrays.stream(segments(directory)).mapToLong(File::length).sum();
    }
}
