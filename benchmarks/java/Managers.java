import java.io.File;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import kafka.log.LogManager$;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogManager;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Log directories as a broker has them: Kafka's own LogManager, with Kafka's defaults. */
final class Managers {
    private static final BrokerTopicStats STATISTICS = new BrokerTopicStats();

    private Managers() {
    }

    /** A broker's first steps: it locks the directory and reads its meta.properties. */
    static LogManager open(File directory, KafkaScheduler scheduler, int threads) {
        Properties properties = new Properties();
        properties.putAll(Map.of(
            "process.roles", "broker",
            "node.id", "1",
            "controller.quorum.voters", "2@localhost:9093",
            "controller.listener.names", "CONTROLLER",
            "listeners", "PLAINTEXT://localhost:0",
            "log.dirs", directory.getPath(),
            "log.cleaner.enable", "false",
            "log.message.timestamp.after.max.ms", Long.toString(Long.MAX_VALUE),
            "num.recovery.threads.per.data.dir", Integer.toString(threads)));
        return LogManager$.MODULE$.apply(KafkaConfig.fromProps(properties, false), Set.of(), resource -> new Properties(),
            scheduler, Time.SYSTEM, STATISTICS, new LogDirFailureChannel(1));
    }

    /** Then it loads the logs, all with the same settings. */
    static void load(LogManager manager) throws Exception {
        manager.loadLogs(manager.initialDefaultConfig(), Map.of(), log -> false);
    }
}
