import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogManager;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * A broker's directory with many small partitions: {@code populate logDirectory partitions recordsPerBatch} leaves it
 * as a running broker has it, {@code populate logDirectory stop} then shuts it down cleanly.
 *
 * <p>Partition n has one to five segments, all flushed but the last: of 4 KiB, 16 KiB or 64 KiB, the last of 128 KiB.
 * Every third partition has three idempotent producers, every fourth three leader epochs.
 */
final class PopulateWork implements Peer.Work {
    private static final int[] SEGMENT_BYTES = {4096, 65_536, 16_384};
    private static final int ACTIVE_BYTES = 131_072;
    private static final int TOPIC_PARTITIONS = 10;
    private static final int THREADS = 32; // they wait for the disk
    private static final int VALUE_BYTES = 100;
    private static final long FIRST_TIMESTAMP_MS = 4_102_444_800_000L; // in 2100: no producer expires

    private KafkaScheduler scheduler;
    private LogManager manager;

    @Override
    public Peer.Done run(String[] arguments) throws Exception {
        if (arguments[1].equals("stop")) {
            manager.shutdown(-1);
            scheduler.shutdown();
            return new Peer.Done(0, 0);
        }
        File directory = new File(arguments[0]);
        directory.mkdirs();
        scheduler = new KafkaScheduler(1, true);
        scheduler.startup();
        manager = Managers.open(directory, scheduler, THREADS);
        Managers.load(manager);
        int perBatch = Integer.parseInt(arguments[2]);
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        List<Future<Long>> sizes = new ArrayList<>();
        for (int partition = 0; partition < Integer.parseInt(arguments[1]); partition++) {
            int number = partition;
            sizes.add(threads.submit(() -> fill(create(number), number, perBatch)));
        }
        threads.shutdown();
        long bytes = 0;
        for (Future<Long> size : sizes) {
            bytes += size.get();
        }
        manager.checkpointLogRecoveryOffsets();
        manager.checkpointLogStartOffsets();
        return new Peer.Done(bytes, 0);
    }

    private UnifiedLog create(int number) throws IOException {
        TopicPartition partition =
            new TopicPartition("topic-" + number / TOPIC_PARTITIONS, number % TOPIC_PARTITIONS);
        Uuid topicId = new Uuid(0, 1 + number / TOPIC_PARTITIONS);
        return manager.getOrCreateLog(partition, true, false, Optional.of(topicId));
    }

    private static long fill(UnifiedLog log, int number, int perBatch) throws Exception {
        SplittableRandom random = new SplittableRandom(number);
        int segments = 1 + number % 5;
        int sequence = 0;
        for (int segment = 1; segment <= segments; segment++) {
            long end = log.size() + (segment == segments ? ACTIVE_BYTES : SEGMENT_BYTES[(number + segment) % 3]);
            int epoch = number % 4 == 0 ? Math.min(segment, 3) : 0;
            while (log.size() < end) {
                long producer = number % 3 == 0 ? 1 + sequence % 3 : RecordBatch.NO_PRODUCER_ID;
                log.appendAsLeader(batch(perBatch, producer, sequence / 3 * perBatch, log.logEndOffset(), random), epoch);
                sequence++;
            }
            if (segment < segments) {
                log.roll();
                log.flush(false);
            }
        }
        return log.size();
    }

    private static MemoryRecords batch(int count, long producer, int sequence, long first, SplittableRandom random) {
        ByteBuffer buffer = ByteBuffer.allocate(count * (VALUE_BYTES + 64) + 256);
        boolean idempotent = producer != RecordBatch.NO_PRODUCER_ID;
        MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, RecordBatch.CURRENT_MAGIC_VALUE, Compression.NONE,
            TimestampType.CREATE_TIME, 0, FIRST_TIMESTAMP_MS, producer, idempotent ? (short) 0 : RecordBatch.NO_PRODUCER_EPOCH,
            idempotent ? sequence : RecordBatch.NO_SEQUENCE, false, RecordBatch.NO_PARTITION_LEADER_EPOCH);
        byte[] value = new byte[VALUE_BYTES];
        for (int i = 0; i < count; i++) {
            random.nextBytes(value);
            builder.append(FIRST_TIMESTAMP_MS + first + i, ByteBuffer.allocate(8).putLong(first + i).array(), value);
        }
        return builder.build();
    }
}
