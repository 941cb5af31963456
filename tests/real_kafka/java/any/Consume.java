import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Apache's own consumer, checking CRCs: {@code Consume bootstrap isolation topic-partition...}. Reads each partition
 * from its beginning to the end it had when the read began and prints a line a record: the partition, a tab, and the
 * JSON array [offset, timestampType, timestamp, keyHex, valueHex, [[headerKey, headerValueHex], ...]].
 */
public final class Consume {
    private static final HexFormat HEX = HexFormat.of();

    private Consume() {
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("isolation.level", arguments[1]);
        properties.put("enable.auto.commit", "false");
        properties.put("check.crcs", "true");
        properties.put("auto.offset.reset", "none");
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        try (var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (int i = 2; i < arguments.length; i++) {
                read(consumer, partition(arguments[i]), out);
            }
        }
        out.flush();
    }

    private static TopicPartition partition(String name) {
        int dash = name.lastIndexOf('-');
        return new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
    }

    private static void read(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, PrintStream out) {
        List<TopicPartition> one = List.of(partition);
        Map<TopicPartition, Long> ends = consumer.endOffsets(one);
        consumer.assign(one);
        consumer.seekToBeginning(one);
        while (consumer.position(partition) < ends.get(partition)) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                out.print(partition + "\t" + json(record) + "\n");
            }
        }
    }

    private static String json(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder text = new StringBuilder("[").append(record.offset()).append(',')
            .append(record.timestampType().id + 1).append(',').append(record.timestamp()).append(',')
            .append(hex(record.key())).append(',').append(hex(record.value())).append(",[");
        String comma = "";
        for (Header header : record.headers()) {
            text.append(comma).append('[').append(quoted(header.key())).append(',').append(hex(header.value())).append(']');
            comma = ",";
        }
        return text.append("]]").toString();
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "null" : '"' + HEX.formatHex(bytes) + '"';
    }

    private static String quoted(String key) {
        StringBuilder text = new StringBuilder("\"");
        for (char c : key.toCharArray()) {
            text.append(c < ' ' || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
        }
        return text.append('"').toString();
    }
}
