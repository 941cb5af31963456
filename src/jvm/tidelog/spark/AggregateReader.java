package tidelog.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import tidelog.spark.HeaderAggregates.Extremes;

/**
 * The reader of one task that gives partial aggregates, mostly from batch headers. Spark merges them.
 *
 * <p>Without groups a task has one row, also if it has no records. With groups, each piece that has records is a row.
 * Thread rule: one thread.
 */
final class AggregateReader implements PartitionReader<InternalRow> {
    private final Piece[] pieces;
    private final ReadSettings settings;
    private final HeaderAggregates aggregates;
    private final BatchDecoder decoder = new BatchDecoder();
    private final RecordColumns records = new RecordColumns(true, false, false, false, false);

    private int number;
    private boolean isDone;
    private InternalRow current;

    AggregateReader(Split split, ReadSettings settings, HeaderAggregates aggregates) {
        pieces = split.pieces;
        this.settings = settings;
        this.aggregates = aggregates;
    }

    @Override
    public boolean next() {
        if (!aggregates.areGrouped()) {
            return nextOfTask();
        }
        while (number < pieces.length) {
            Piece piece = pieces[number++];
            Extremes found = extremes(piece);
            if (found.count > 0) {
                current = aggregates.row(piece, found);
                return true;
            }
        }
        return false;
    }

    private boolean nextOfTask() {
        if (isDone) {
            return false;
        }
        Extremes found = new Extremes();
        for (Piece piece : pieces) {
            found.add(extremes(piece));
        }
        current = aggregates.row(null, found);
        isDone = true;
        return true;
    }

    private Extremes extremes(Piece piece) {
        Extremes found = new Extremes();
        decoder.begin(piece, records);
        Damage damage = new Damage(piece, settings.reportsDamage);
        try (PieceStream stream =
                new PieceStream(piece, settings, damage, batch -> aggregates.needRecords(piece, batch, found))) {
            while (stream.nextChunk()) {
                while (stream.nextBatch()) {
                    add(stream, found);
                }
            }
        }
        return found;
    }

    private void add(PieceStream stream, Extremes found) {
        BatchHeader batch = stream.chunk().batch;
        if (!stream.isOpen()) {
            found.add(batch);
            return;
        }
        decoder.clear();
        try {
            decoder.add(batch, stream.chunk().data);
        } catch (CorruptRecordException error) {
            throw stream.placed(error);
        }
        found.add(records);
    }

    @Override
    public InternalRow get() {
        return current;
    }

    @Override
    public void close() {
        decoder.close();
    }

    /** The factory of these readers on the executors. */
    static final class Factory implements PartitionReaderFactory {
        private static final long serialVersionUID = 1L;

        private final ReadSettings settings;
        private final HeaderAggregates aggregates;

        Factory(ReadSettings settings, HeaderAggregates aggregates) {
            this.settings = settings;
            this.aggregates = aggregates;
        }

        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            return new AggregateReader((Split) partition, settings, aggregates);
        }
    }
}
