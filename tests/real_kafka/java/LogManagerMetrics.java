import com.yammer.metrics.core.Metric;
import com.yammer.metrics.core.MetricName;
import com.yammer.metrics.core.MetricsRegistryListener;

import kafka.server.builders.LogManagerBuilder;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.ConfigRepository;
import org.apache.kafka.server.metrics.KafkaYammerMetrics;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.CleanerConfig;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogManager;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.File;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;

/**
 * The names of all metrics that Kafka's LogManager has from its start to its end: {@code LogManagerMetrics directory...}
 */
public final class LogManagerMetrics {
    private LogManagerMetrics() {
    }

    public static void main(String[] arguments) throws Exception {
        Set<String> names = new ConcurrentSkipListSet<>();
        KafkaYammerMetrics.defaultRegistry().addListener(new MetricsRegistryListener() {
            @Override
            public void onMetricAdded(MetricName name, Metric metric) {
                names.add(name.getMBeanName());
            }

            @Override
            public void onMetricRemoved(MetricName name) {
            }
        });
        List<File> directories = Arrays.stream(arguments).map(File::new).toList();
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        LogManager manager = new LogManagerBuilder()
                .setLogDirs(directories)
                .setInitialOfflineDirs(List.of())
                .setConfigRepository((ConfigRepository) resource -> new Properties())
                .setInitialDefaultConfig(new LogConfig(Map.of("segment.index.bytes", "4096")))
                .setCleanerConfig(new CleanerConfig(true))
                .setScheduler(scheduler)
                .setBrokerTopicStats(new BrokerTopicStats())
                .setLogDirFailureChannel(new LogDirFailureChannel(directories.size()))
                .setTime(Time.SYSTEM)
                .build();
        manager.startup(new TreeSet<String>(), log -> false);
        manager.shutdown(-1);
        names.stream().filter(name -> name.startsWith("kafka.")).forEach(System.out::println);
        System.exit(0);
    }
}
