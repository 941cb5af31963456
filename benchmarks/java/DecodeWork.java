import java.io.File;
import java.nio.ByteBuffer;
import org.apache.kafka.common.record.internal.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.CloseableIterator;

/**
 * Every record of a partition's segments, CRCs checked: {@code decode partitionDirectory}. The bytes of each value are
 * summed by length only, as a consumer with byte-array deserializers would do; keys and values are copied out as it does.
 */
final class DecodeWork implements Peer.Work {
    private long valueBytes;

    @Override
    public Peer.Done run(String[] arguments) throws Exception {
        long bytes = 0;
        long records = 0;
        try (BufferSupplier buffers = BufferSupplier.create()) {
            for (File file : Logs.segments(new File(arguments[0]))) {
                try (FileRecords segment = FileRecords.open(file, false)) {
                    for (FileChannelRecordBatch batch : segment.batches()) {
                        batch.ensureValid();
                        records += decode(batch, buffers);
                        bytes += batch.sizeInBytes();
                    }
                }
            }
        }
        return new Peer.Done(bytes, records);
    }

    private long decode(FileChannelRecordBatch batch, BufferSupplier buffers) {
        long records = 0;
        try (CloseableIterator<Record> iterator = batch.streamingIterator(buffers)) {
            while (iterator.hasNext()) {
                Record record = iterator.next();
                valueBytes += copied(record.key()) + copied(record.value()) + record.headers().length + record.timestamp();
                records++;
            }
        }
        return records;
    }

    private static int copied(ByteBuffer field) {
        if (field == null) {
            return 0;
        }
        byte[] bytes = new byte[field.remaining()];
        field.get(bytes);
        return bytes.length;
    }
}
