package tidelog.spark;

import java.io.Closeable;

/**
 * The records of a piece's batches, of any format and codec, as columns.
 *
 * <p>The records of plain batches refer to the bytes that they were given in. Those of compressed batches refer to the
 * {@code payload}, which several decoders may share. Thread rule: one thread.
 */
final class BatchDecoder implements Closeable {
    final Payload payload = new Payload();

    private final Codecs codecs = new Codecs();

    private RecordColumns records;
    private RecordDecoder decoder;
    private LegacyMessages legacy;

    /** Begin a piece. Only records with offsets in {@code [start, end)} are added to the columns. */
    void begin(Piece piece, RecordColumns newRecords) {
        records = newRecords;
        decoder = new RecordDecoder(records, piece.start, piece.end);
        legacy = new LegacyMessages(records, codecs, piece.start, piece.end);
    }

    /** Forget the decoded records. */
    void clear() {
        records.clear();
        payload.used = 0;
    }

    /** Add a batch completely, or throw CorruptRecordException without a place and add nothing. */
    void add(BatchHeader batch, byte[] data) {
        int used = payload.used;
        boolean isCompressed = batch.codec() != 0;
        try {
            if (batch.magic < 2) {
                legacy.add(batch, data, payload);
            } else if (!isCompressed) {
                decoder.add(batch, data, batch.index + Bytes.V2_HEADER, batch.index + batch.size);
            } else if (batch.recordCount > 0) { // a batch that the cleaner emptied may keep its codec
                codecs.decompress(batch.codec(), data, batch.index + Bytes.V2_HEADER,
                        batch.size - Bytes.V2_HEADER, batch.magic, payload);
                decoder.add(batch, payload.data, used, payload.used);
            }
        } catch (CorruptRecordException error) {
            payload.used = used;
            throw error;
        }
        records.source = isCompressed ? payload.data : data;
    }

    @Override
    public void close() {
        codecs.close();
    }
}
