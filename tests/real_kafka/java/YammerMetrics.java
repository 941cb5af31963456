import com.yammer.metrics.core.Clock;
import com.yammer.metrics.core.Gauge;
import com.yammer.metrics.core.Histogram;
import com.yammer.metrics.core.MetricName;
import com.yammer.metrics.core.MetricPredicate;
import com.yammer.metrics.core.MetricsRegistry;
import com.yammer.metrics.core.Timer;
import com.yammer.metrics.reporting.CsvReporter;
import com.yammer.metrics.reporting.JmxReporter;

import org.apache.kafka.server.metrics.KafkaMetricsGroup;

import java.io.File;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * Prints the values of Yammer's metrics, and Kafka's names of them: {@code YammerMetrics values directory}. Each line of
 * the file is a whole number. They go into a gauge (the last one), a meter, a histogram and a timer (as ms). Each metric
 * is reported once into a CSV file in the directory. The output has the attributes of their MBeans, {@code attribute
 * MBEAN ATTRIBUTE VALUE} separated by tabs. It also has the object name for each tag value of a list, {@code name VALUE
 * NAME} with line feeds as \n.
 */
public final class YammerMetrics {
    private static final List<String> TAG_VALUES = List.of(
            "orders", "a b", "a\tb", "a-b_c.d%2A", "/data/kafka", "a,b", "a=b", "a:b", "a\"b", "a*b?", "a\\b", "größe", "a+b",
            "(a)", "it's");

    private YammerMetrics() {
    }

    public static void main(String[] arguments) throws Exception {
        long[] values = Files.readAllLines(Path.of(arguments[0])).stream().mapToLong(Long::parseLong).toArray();
        MetricsRegistry registry = new MetricsRegistry(Clock.defaultClock());
        registry.newGauge(name("AGauge"), new Gauge<Long>() {
            @Override
            public Long value() {
                return values[values.length - 1];
            }
        });
        var meter = registry.newMeter(name("AMeter"), "events", TimeUnit.SECONDS);
        Histogram histogram = registry.newHistogram(name("AHistogram"), true);
        Timer timer = registry.newTimer(name("ATimer"), TimeUnit.MILLISECONDS, TimeUnit.SECONDS);
        for (long value : values) {
            meter.mark(value);
            histogram.update(value);
            timer.update(value, TimeUnit.MILLISECONDS);
        }
        new CsvReporter(registry, MetricPredicate.ALL, new File(arguments[1])).run();
        new JmxReporter(registry).start();
        printAttributes();
        KafkaMetricsGroup group = new KafkaMetricsGroup("kafka.log", "Log");
        for (String value : TAG_VALUES)
            System.out.println("name\t" + value.replace("\t", "\\t") + "\t"
                    + group.metricName("Size", new TreeMap<>(Map.of("partition", "", "topic", value))).getMBeanName()
                            .replace("\t", "\\t"));
        registry.shutdown();
        System.exit(0);
    }

    private static MetricName name(String name) {
        return new MetricName("kafka.test", "Test", name);
    }

    private static void printAttributes() throws Exception {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        for (ObjectName bean : server.queryNames(new ObjectName("\"kafka.test\":*"), null))
            for (MBeanAttributeInfo attribute : server.getMBeanInfo(bean).getAttributes())
                System.out.println("attribute\t" + bean.getKeyProperty("name") + "\t" + attribute.getName() + "\t"
                        + server.getAttribute(bean, attribute.getName()));
    }
}
