import com.yammer.metrics.core.MetricsRegistry;

import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorRuntimeMetrics;

import java.util.Map;
import java.util.TreeMap;

/**
 * The names of all metrics of Kafka's group coordinator, as its MBeans have them; those of Kafka's own kind as Yammer's
 * would be called. One a line.
 */
public final class GroupMetrics {
    private GroupMetrics() {
    }

    public static void main(String[] arguments) {
        MetricsRegistry registry = new MetricsRegistry();
        Metrics metrics = new Metrics();
        new GroupCoordinatorMetrics(registry, metrics);
        new GroupCoordinatorRuntimeMetrics(metrics);
        registry.allMetrics().keySet().forEach(name -> System.out.println(name.getMBeanName()));
        for (MetricName name : metrics.metrics().keySet()) {
            if (name.group().equals(GroupCoordinatorMetrics.METRICS_GROUP)) {
                StringBuilder line = new StringBuilder("kafka.server:type=" + name.group() + ",name=" + name.name());
                for (Map.Entry<String, String> tag : new TreeMap<>(name.tags()).entrySet()) {
                    line.append(",").append(tag.getKey()).append("=").append(tag.getValue());
                }
                System.out.println(line);
            }
        }
        metrics.close();
        registry.shutdown();
    }
}
