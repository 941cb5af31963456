import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/**
 * Which partition the producer's default partitioner gives to keys: {@code KeyPartitions file count}. Each line of the
 * file is a key in hexadecimal digits, the partitions are {@code count}; prints a number a line.
 */
public final class KeyPartitions {
    private KeyPartitions() {
    }

    public static void main(String[] arguments) throws Exception {
        int partitions = Integer.parseInt(arguments[1]);
        StringBuilder out = new StringBuilder();
        for (String key : Files.readAllLines(Path.of(arguments[0]))) {
            out.append(BuiltInPartitioner.partitionForKey(HexFormat.of().parseHex(key), partitions)).append('\n');
        }
        System.out.print(out);
    }
}
