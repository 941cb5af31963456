package tidelog.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** The factory of readers on the executors, which need this jar and no Python. */
final class ReaderFactory implements PartitionReaderFactory {
    private static final long serialVersionUID = 1L;

    private final ReadSettings settings;
    private final StructType schema;
    private final long limit;

    /** {@code limit} is the number of rows after which a task may stop. */
    ReaderFactory(ReadSettings settings, StructType schema, long limit) {
        this.settings = settings;
        this.schema = schema;
        this.limit = limit;
    }

    @Override
    public boolean supportColumnarReads(InputPartition partition) {
        return true;
    }

    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
        return new RecordReader((Split) partition, settings, schema, limit);
    }

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
        throw new UnsupportedOperationException("the records are read as columns");
    }
}
