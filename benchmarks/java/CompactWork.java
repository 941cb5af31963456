import java.io.File;
import java.util.Map;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;

/**
 * One round of a broker's cleaner over all segments but a new active one: {@code compact partitionDirectory segmentBytes
 * mapBytes}. As with a broker's defaults, its map and its buffers are there before it begins.
 */
final class CompactWork implements Peer.Work {
    private static final int BUFFER_BYTES = 256 * 1024;
    private static final int LARGEST_BUFFER_BYTES = 16 * 1024 * 1024;
    private static final double LOAD_FACTOR = 0.9;

    private UnifiedLog log;
    private Cleaner cleaner;

    @Override
    public void prepare(String[] arguments) throws Exception {
        log = Logs.open(new File(arguments[0]), Map.of("internal.segment.bytes", arguments[1], "cleanup.policy", "compact",
            "max.message.bytes", Integer.toString(LARGEST_BUFFER_BYTES)), true);
        log.updateHighWatermark(log.logEndOffset());
        log.roll();
        Throttler none = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM);
        cleaner = new Cleaner(0, new SkimpyOffsetMap(Integer.parseInt(arguments[2])), BUFFER_BYTES, LARGEST_BUFFER_BYTES,
            LOAD_FACTOR, none, Time.SYSTEM, partition -> { });
    }

    @Override
    public Peer.Done run(String[] arguments) throws Exception {
        long bytes = log.size();
        cleaner.doClean(new LogToClean(log, 0, log.activeSegment().baseOffset(), false), Time.SYSTEM.milliseconds());
        return new Peer.Done(bytes, log.logEndOffset());
    }

    @Override
    public void finish(String[] arguments) {
        log.close();
        cleaner = null;
    }
}
