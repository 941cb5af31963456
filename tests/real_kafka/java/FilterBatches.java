import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.OffsetMap;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;

/**
 * Filters batches by Kafka's {@code MemoryRecords.filterTo}, with the rules of its {@code Cleaner} for records:
 * {@code FilterBatches file}. Each line of the file is one clean, in words separated by spaces.
 *
 * <p>The first words are now ms, delete retention ms, and 1 if legacy deletes stay. Then come the latest offset of the
 * map and its keys ({@code base64:offset,…} or {@code -}). Then comes a fate for each batch, three digits ({@code
 * retention discard endsEmptyTransaction}), joined by commas. The last word has the batches in base64.
 *
 * <p>It prints a line for each: {@code ok}, the kept batches in base64, the counts of records read, kept and without a key,
 * and the bytes read; or {@code refused} and the error's class.
 */
public final class FilterBatches {
    private static final int MAP_BYTES = 24 * 1000;
    private static final int MOST_BYTES = 1 << 20;

    private FilterBatches() {
    }

    public static void main(String[] arguments) throws Exception {
        StringBuilder out = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            try {
                out.append(filtered(line.split(" ")));
            } catch (RuntimeException error) {
                out.append("refused ").append(error.getClass().getSimpleName());
            }
            out.append('\n');
        }
        System.out.print(out);
    }

    private static String filtered(String[] words) throws Exception {
        OffsetMap map = new SkimpyOffsetMap(MAP_BYTES);
        if (!words[4].equals("-")) {
            for (String entry : words[4].split(",")) {
                String[] pair = entry.split(":");
                byte[] key = pair[0].isEmpty() ? new byte[0] : Base64.getDecoder().decode(pair[0]);
                map.put(ByteBuffer.wrap(key), Long.parseLong(pair[1]));
            }
        }
        map.updateLatestOffset(Long.parseLong(words[3]));
        CleanerStats stats = new CleanerStats(Time.SYSTEM);
        Filter filter = new Filter(Long.parseLong(words[0]), Long.parseLong(words[1]), Boolean.parseBoolean(words[2]),
            map, words[5].split(","), stats);
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(Base64.getDecoder().decode(words[6])));
        MemoryRecords.FilterResult result =
            records.filterTo(filter, ByteBuffer.allocate(MOST_BYTES), BufferSupplier.NO_CACHING, MOST_BYTES);
        ByteBuffer left = result.outputBuffer().flip();
        byte[] bytes = new byte[left.remaining()];
        left.get(bytes);
        return "ok " + Base64.getEncoder().encodeToString(bytes) + " " + result.messagesRead() + " "
            + result.messagesRetained() + " " + stats.invalidMessagesRead() + " " + result.bytesRead();
    }

    private static final class Filter extends RecordFilter {
        private final boolean retainLegacyDeletes;
        private final OffsetMap map;
        private final String[] fates;
        private final CleanerStats stats;
        private final Cleaner cleaner;
        private final Method judge;
        private int next = 0;
        private boolean discard;

        Filter(long now, long deleteRetentionMs, boolean retainLegacyDeletes, OffsetMap map, String[] fates,
               CleanerStats stats) throws NoSuchMethodException {
            super(now, deleteRetentionMs);
            this.retainLegacyDeletes = retainLegacyDeletes;
            this.map = map;
            this.fates = fates;
            this.stats = stats;
            Throttler none = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM);
            this.cleaner = new Cleaner(0, map, MOST_BYTES, MOST_BYTES, 0.9, none, Time.SYSTEM, partition -> { });
            this.judge = Cleaner.class.getDeclaredMethod("shouldRetainRecord", OffsetMap.class, boolean.class,
                RecordBatch.class, Record.class, CleanerStats.class, long.class);
            this.judge.setAccessible(true);
        }

        @Override
        protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
            String fate = fates[next++];
            discard = fate.charAt(1) == '1';
            BatchRetention retention = switch (fate.charAt(0)) {
                case '0' -> BatchRetention.DELETE;
                case '1' -> BatchRetention.DELETE_EMPTY;
                default -> BatchRetention.RETAIN_EMPTY;
            };
            return new BatchRetentionResult(retention, fate.charAt(2) == '1');
        }

        @Override
        protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
            if (discard || batch.isControlBatch()) {
                return !discard;
            }
            try {
                return (boolean) judge.invoke(cleaner, map, retainLegacyDeletes, batch, record, stats, currentTime);
            } catch (IllegalAccessException | InvocationTargetException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
