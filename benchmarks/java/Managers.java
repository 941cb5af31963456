import java.io.File;
import java.util.Map;
import java.util.Properties;
import kafka.log.LogManager;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/** Log directories as a broker has them: Kafka's own LogManager, with Kafka's defaults. */
final class Managers {
    private static final BrokerTopicStats STATISTICS = new BrokerTopicStats();

    private Managers() {
    }

    /** What a broker does first: lock the directory, read what it says of itself. */
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
        return LogManager.apply(KafkaConfig.fromProps(properties, false), CollectionConverters.asScala(
            java.util.List.<String>of()).toSeq(), resource -> new Properties(), scheduler, Time.SYSTEM, STATISTICS,
            new LogDirFailureChannel(1));
    }

    /** Then it loads the logs, all with the same settings. */
    static void load(LogManager manager) {
        manager.loadLogs(manager.initialDefaultConfig(), noOverrides(), log -> false);
    }

    @SuppressWarnings("unchecked")
    private static <K, V> scala.collection.immutable.Map<K, V> noOverrides() {
        return (scala.collection.immutable.Map<K, V>) Map$.MODULE$.empty();
    }
}
