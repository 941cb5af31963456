package tidelog.spark;

import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.unsafe.types.UTF8String;

/** A record's headers, as an array of structs of a key and a value. Null if a record has none, as in Spark's source. */
final class HeadersColumn extends Column {
    static final StructType HEADER =
            new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType);
    static final ArrayType TYPE = DataTypes.createArrayType(HEADER);

    private final Structs structs = new Structs();
    private int[] ends;

    HeadersColumn() {
        super(TYPE);
    }

    void set(RecordColumns records) {
        ends = records.headersEnd;
        structs.keys.set(records.source, records.headerKeyStart, records.headerKeyLength);
        structs.values.set(records.source, records.headerValueStart, records.headerValueLength);
    }

    private int start(int row) {
        return row == 0 ? 0 : ends[row - 1];
    }

    @Override
    public boolean hasNull() {
        return true;
    }

    @Override
    public boolean isNullAt(int row) {
        return start(row) == ends[row];
    }

    @Override
    public ColumnarArray getArray(int row) {
        return isNullAt(row) ? null : new ColumnarArray(structs, start(row), ends[row] - start(row));
    }

    @Override
    public ColumnVector getChild(int ordinal) {
        return structs;
    }

    private static final class Structs extends Column {
        private final KeyColumn keys = new KeyColumn();
        private final BytesColumn values = new BytesColumn();

        Structs() {
            super(HEADER);
        }

        @Override
        public ColumnVector getChild(int ordinal) {
            return ordinal == 0 ? keys : values;
        }
    }

    /** The keys, where bytes that are not UTF-8 become replacement characters, as in Kafka's Java client. */
    private static final class KeyColumn extends Column {
        private byte[] source;
        private int[] starts;
        private int[] lengths;

        KeyColumn() {
            super(DataTypes.StringType);
        }

        void set(byte[] newSource, int[] newStarts, int[] newLengths) {
            source = newSource;
            starts = newStarts;
            lengths = newLengths;
        }

        @Override
        public UTF8String getUTF8String(int row) {
            return UTF8String.fromString(new String(source, starts[row], lengths[row], StandardCharsets.UTF_8));
        }
    }
}
