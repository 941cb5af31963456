package tidelog.spark;

import java.util.ArrayDeque;
import java.util.Deque;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** The reader of one task: the records of its pieces as batches of columns, with rows about damage between them. */
final class RecordReader implements PartitionReader<ColumnarBatch> {
    private static final int MOST_ROWS = 16 * 1024;
    private static final int MOST_PAYLOAD_BYTES = 1024 * 1024;

    private final Piece[] pieces;
    private final ReadSettings settings;
    private final StructType schema;
    private final long limit;
    private final BatchDecoder decoder = new BatchDecoder();
    private final Deque<Damage.Row> damageRows = new ArrayDeque<>();

    private int number = -1;
    private Damage damage;
    private PieceStream stream;
    private RecordTable table;
    private RecordColumns records;
    private boolean isWaiting;
    private boolean isPlain;
    private TidelogException failure;
    private ColumnarBatch current;
    private long rowsRead;

    RecordReader(Split split, ReadSettings settings, StructType schema, long limit) {
        pieces = split.pieces;
        this.settings = settings;
        this.schema = schema;
        this.limit = limit;
    }

    @Override
    public boolean next() {
        while (rowsRead < limit) {
            if (!damageRows.isEmpty()) {
                return found(table.damage(damageRows.remove()));
            }
            if (failure != null) {
                throw failure;
            }
            if (stream == null && !openNext()) {
                return false;
            }
            boolean isEnd = !decodeSome();
            damageRows.addAll(damage.drain());
            if (records.rows > 0) {
                found(table.batch());
            }
            if (isEnd) {
                closePiece();
            }
            if (records.rows > 0) {
                return true;
            }
        }
        return false;
    }

    private boolean found(ColumnarBatch batch) {
        current = batch;
        rowsRead += batch.numRows();
        return true;
    }

    private boolean openNext() {
        if (++number >= pieces.length) {
            return false;
        }
        Piece piece = pieces[number];
        damage = new Damage(piece, settings.reportsDamage);
        stream = new PieceStream(piece, settings, damage, null);
        table = new RecordTable(schema, piece);
        records = table.records();
        decoder.begin(piece, records);
        isWaiting = false;
        return true;
    }

    private void closePiece() {
        damage.addTail();
        damageRows.addAll(damage.drain());
        stream.close();
        stream = null;
    }

    /** Decode batches until a bound of a result, the chunk's end, or damage. Return False at the piece's end. */
    private boolean decodeSome() {
        decoder.clear();
        try {
            while (true) {
                if (!isWaiting && !stream.nextBatch()) {
                    if (records.rows > 0 || !damage.isEmpty()) {
                        return true;
                    }
                    if (!stream.nextChunk()) {
                        return false;
                    }
                    if (!damage.isEmpty()) {
                        return true; // its row comes before the rows after it
                    }
                    continue;
                }
                isWaiting = false;
                if (!decode(stream.chunk().batch)) {
                    return true;
                }
            }
        } catch (TidelogException error) {
            failure = error; // the rows before it come first
            return true;
        }
    }

    /** Add the current batch. Return False if the rows so far must go first, or are enough. */
    private boolean decode(BatchHeader batch) {
        boolean isCompressed = batch.codec() != 0;
        if (records.needNoRecords() && batch.magic == 2 && pieces[number].holdsAllOf(batch)) {
            countRecords(batch);
            return records.rows < MOST_ROWS;
        }
        if (records.rows > 0 && isPlain == isCompressed) {
            isWaiting = true;
            return false;
        }
        isPlain = !isCompressed;
        try {
            decoder.add(batch, stream.chunk().data);
        } catch (CorruptRecordException error) {
            return skipped(batch, error);
        }
        return records.rows < MOST_ROWS && decoder.payload.used < MOST_PAYLOAD_BYTES;
    }

    private void countRecords(BatchHeader batch) {
        int first = records.rows;
        records.reserve(batch.recordCount);
        records.rows += batch.recordCount;
        records.endBatch(batch, first);
    }

    /** Report a batch with a valid CRC but unreadable records, or throw the error with its place. */
    private boolean skipped(BatchHeader batch, CorruptRecordException error) {
        if (!settings.skipsDamage) {
            throw stream.placed(error);
        }
        damage.add(stream.path(), stream.chunk().batchPosition(), batch.size, batch.baseOffset, error.getMessage());
        return damage.isEmpty();
    }

    @Override
    public ColumnarBatch get() {
        return current;
    }

    @Override
    public void close() {
        if (stream != null) {
            stream.close();
            stream = null;
        }
        decoder.close();
    }
}
