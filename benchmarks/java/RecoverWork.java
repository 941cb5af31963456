import java.io.File;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * A broker's work on its logs between a start after a kill and a clean shutdown: {@code recover logDirectory threads
 * segmentBytes}. It loads the logs, recovers every segment as if none had been flushed, flushes and closes.
 */
final class RecoverWork implements Peer.Work {
    @Override
    public Peer.Done run(String[] arguments) throws Exception {
        Map<String, String> config = Map.of("internal.segment.bytes", arguments[2], "max.message.bytes", "16777216");
        List<Future<Peer.Done>> partitions = new ArrayList<>();
        ExecutorService threads = Executors.newFixedThreadPool(Integer.parseInt(arguments[1]));
        for (File partition : new File(arguments[0]).listFiles(File::isDirectory)) {
            partitions.add(threads.submit(() -> recover(partition, config)));
        }
        threads.shutdown();
        long bytes = 0;
        long records = 0;
        for (Future<Peer.Done> partition : partitions) {
            bytes += partition.get().bytes();
            records += partition.get().records();
        }
        return new Peer.Done(bytes, records);
    }

    private static Peer.Done recover(File partition, Map<String, String> config) throws Exception {
        try (UnifiedLog log = Logs.open(partition, config, false)) {
            log.prepareActiveSegmentForClose();
            log.flush(true);
            return new Peer.Done(log.size(), log.logEndOffset());
        }
    }
}
