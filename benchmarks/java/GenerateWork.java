import java.io.File;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.function.LongSupplier;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * The data, the same on every machine: {@code generate partitionDirectory records valueBytes recordsPerBatch
 * segmentBytes codec keys words}. Keys are 8 bytes, values words of sixteen letters from a to p, timestamps a millisecond
 * apart. Each key and each word is its own, or, of a number above 0, one of so many.
 */
final class GenerateWork implements Peer.Work {
    private static final long FIRST_TIMESTAMP_MS = 1_700_000_000_000L;

    @Override
    public Peer.Done run(String[] arguments) throws Exception {
        File directory = new File(arguments[0]);
        long records = Long.parseLong(arguments[1]);
        int valueBytes = Integer.parseInt(arguments[2]);
        int perBatch = Integer.parseInt(arguments[3]);
        Map<String, String> config = Map.of("internal.segment.bytes", arguments[4], "max.message.bytes", "16777216");
        CompressionType codec = CompressionType.forName(arguments[5]);
        SplittableRandom random = new SplittableRandom(20_010_101);
        LongSupplier keys = drawn(random, Integer.parseInt(arguments[6]));
        LongSupplier words = drawn(random, Integer.parseInt(arguments[7]));
        ByteBuffer buffer = ByteBuffer.allocate(perBatch * (valueBytes + 64) + 256);
        byte[] value = new byte[valueBytes];
        directory.mkdirs();
        try (UnifiedLog log = Logs.open(directory, config, true)) {
            for (long first = 0; first < records; first += perBatch) {
                buffer.clear();
                int count = (int) Math.min(perBatch, records - first);
                log.appendAsLeader(batch(buffer, codec, first, count, value, keys, words), 0);
            }
            log.prepareActiveSegmentForClose();
            log.flush(true);
        }
        return new Peer.Done(Logs.bytes(directory), records);
    }

    private static MemoryRecords batch(
            ByteBuffer buffer, CompressionType codec, long first, int count, byte[] value, LongSupplier keys,
            LongSupplier words) {
        Compression compression = Compression.of(codec).build();
        MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, compression, TimestampType.CREATE_TIME, 0);
        for (int i = 0; i < count; i++) {
            fill(value, words);
            byte[] key = ByteBuffer.allocate(8).putLong(keys.getAsLong()).array();
            builder.append(FIRST_TIMESTAMP_MS + first + i, key, value);
        }
        return builder.build();
    }

    /** Any number, or one of {@code count}. */
    private static LongSupplier drawn(SplittableRandom random, int count) {
        long[] numbers = new SplittableRandom(count).longs(count).toArray();
        return count == 0 ? random::nextLong : () -> numbers[random.nextInt(count)];
    }

    /** The letters from a to p that a number's sixteen digits stand for, one number after the other. */
    private static void fill(byte[] value, LongSupplier words) {
        long bits = 0;
        for (int at = 0; at < value.length; at++) {
            bits = at % 16 == 0 ? words.getAsLong() : bits >>> 4;
            value[at] = (byte) ('a' + (bits & 15));
        }
    }
}
