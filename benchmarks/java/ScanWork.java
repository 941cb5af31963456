import java.io.File;
import org.apache.kafka.common.record.internal.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.internal.FileRecords;

/** Every batch of a partition's segments, its CRC checked: {@code scan partitionDirectory}. */
final class ScanWork implements Peer.Work {
    @Override
    public Peer.Done run(String[] arguments) throws Exception {
        long bytes = 0;
        long records = 0;
        for (File file : Logs.segments(new File(arguments[0]))) {
            try (FileRecords segment = FileRecords.open(file, false)) {
                for (FileChannelRecordBatch batch : segment.batches()) {
                    batch.ensureValid();
                    bytes += batch.sizeInBytes();
                    records += batch.countOrNull();
                }
            }
        }
        return new Peer.Done(bytes, records);
    }
}
