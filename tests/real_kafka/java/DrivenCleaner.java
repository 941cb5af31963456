import java.io.IOException;
import java.security.DigestException;
import java.security.NoSuchAlgorithmException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.CleanableOffsets;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;

/**
 * Kafka's own Cleaner on one log, a round a call, and the offset that a broker's cleaner checkpoint would hold.
 *
 * <p>A round cleans the range that LogCleanerManager returns, even a small one. Before each round the segments get
 * file times that follow from their base offsets, because old formats keep tombstones by them.
 */
final class DrivenCleaner {
    private static final double LOAD_FACTOR = 0.9;
    private static final long FIRST_FILE_TIME_MS = 1_600_000_000_000L;
    private static final int MS_AN_OFFSET = 1000;

    private final Time time;
    private Optional<Long> checkpoint = Optional.empty();

    DrivenCleaner(Time time) {
        this.time = time;
    }

    /** A key takes 24 of the {@code mapBytes}; {@code bufferBytes} is the first size of a read. */
    String clean(UnifiedLog log, int mapBytes, int bufferBytes)
            throws IOException, DigestException, NoSuchAlgorithmException {
        long now = time.milliseconds();
        CleanableOffsets offsets = CleanableOffsets.of(log, checkpoint, now);
        LogToClean cleanable = new LogToClean(log, offsets.firstDirtyOffset(), offsets.firstUncleanableDirtyOffset(), false);
        if (offsets.forceUpdateCheckpoint()) {
            checkpoint = Optional.of(offsets.firstDirtyOffset());
        }
        String range = "from=" + cleanable.firstDirtyOffset() + " to=" + cleanable.firstUncleanableOffset()
            + " planned=" + cleanable.cleanBytes() + "/" + cleanable.cleanableBytes();
        if (cleanable.cleanableBytes() == 0) {
            return range;
        }
        for (LogSegment segment : log.logSegments()) {
            segment.log().file().setLastModified(FIRST_FILE_TIME_MS + MS_AN_OFFSET * segment.baseOffset());
        }
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(mapBytes), bufferBytes, Math.max(bufferBytes, 1 << 20), LOAD_FACTOR,
            new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "throttler", "entries", time), time, partition -> { });
        Map.Entry<Long, CleanerStats> cleaned = cleaner.doClean(cleanable, now);
        checkpoint = Optional.of(cleaned.getKey());
        return range + " done=" + cleaned.getKey() + " " + described(cleaned.getValue()) + " files="
            + fileTimes(log.logSegments(0, cleaned.getKey()));
    }

    /** A checkpoint above the end of a truncated log goes back to that end. */
    void cut(long offset) {
        checkpoint = checkpoint.map(held -> Math.min(held, offset));
    }

    private static String described(CleanerStats stats) {
        return "records=" + stats.messagesRead() + "/" + stats.messagesWritten()
            + " keyless=" + stats.invalidMessagesRead() + " sizes=" + stats.bytesRead() + "/" + stats.bytesWritten();
    }

    private static String fileTimes(List<LogSegment> segments) {
        return segments.stream().map(one -> one.baseOffset() + "@" + (one.lastModified() - FIRST_FILE_TIME_MS))
            .collect(Collectors.joining(","));
    }
}
