import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.record.internal.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.internals.Crc32C;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * Batches appended as a leader does it, each on its own: {@code append sourceDirectory targetDirectory producerId
 * batchesACall}. The batches lie in memory as a client sent them, the log is new; a producer id below 0 is none. The
 * last argument is the other side's.
 */
final class AppendWork implements Peer.Work {
    private static final int CRC_POSITION = 17;
    private static final int PRODUCER_ID_POSITION = 43;
    private static final int PRODUCER_EPOCH_POSITION = 51;
    private static final int BASE_SEQUENCE_POSITION = 53;

    private List<MemoryRecords> batches;
    private UnifiedLog log;

    @Override
    public void prepare(String[] arguments) throws Exception {
        File target = new File(arguments[1]);
        Utils.delete(target);
        target.mkdirs();
        batches = load(new File(arguments[0]), Long.parseLong(arguments[2]));
        log = Logs.open(target, Map.of(), true);
    }

    @Override
    public Peer.Done run(String[] arguments) throws Exception {
        for (MemoryRecords batch : batches) {
            log.appendAsLeader(batch, 0);
        }
        return new Peer.Done(log.size(), log.logEndOffset());
    }

    @Override
    public void finish(String[] arguments) {
        batches = null;
        log.prepareActiveSegmentForClose();
        log.close();
    }

    private static List<MemoryRecords> load(File directory, long producerId) throws IOException {
        List<MemoryRecords> batches = new ArrayList<>();
        for (File file : Logs.segments(directory)) {
            try (FileRecords segment = FileRecords.open(file, false)) {
                for (FileChannelRecordBatch stored : segment.batches()) {
                    ByteBuffer bytes = ByteBuffer.allocate(stored.sizeInBytes());
                    stored.writeTo(bytes);
                    bytes.flip();
                    if (producerId >= 0) {
                        setProducer(bytes, producerId, (int) stored.baseOffset());
                    }
                    MemoryRecords batch = MemoryRecords.readableRecords(bytes);
                    batch.batches().forEach(one -> {
                        one.setLastOffset(one.lastOffset() - one.baseOffset());
                        one.setPartitionLeaderEpoch(-1);
                    });
                    batches.add(batch);
                }
            }
        }
        return batches;
    }

    private static void setProducer(ByteBuffer batch, long producerId, int sequence) {
        batch.putLong(PRODUCER_ID_POSITION, producerId);
        batch.putShort(PRODUCER_EPOCH_POSITION, (short) 0);
        batch.putInt(BASE_SEQUENCE_POSITION, sequence);
        int start = CRC_POSITION + Integer.BYTES;
        batch.putInt(CRC_POSITION, (int) Crc32C.compute(batch, start, batch.limit() - start));
    }
}
