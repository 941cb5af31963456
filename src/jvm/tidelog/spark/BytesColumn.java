package tidelog.spark;

import java.util.Arrays;
import org.apache.spark.sql.types.DataTypes;

/** Keys or values: slices of the bytes that were read. A value is copied when Spark asks for it. */
final class BytesColumn extends Column {
    private byte[] source;
    private int[] starts;
    private int[] lengths;

    BytesColumn() {
        super(DataTypes.BinaryType);
    }

    void set(byte[] newSource, int[] newStarts, int[] newLengths) {
        source = newSource;
        starts = newStarts;
        lengths = newLengths;
    }

    @Override
    public boolean hasNull() {
        return true;
    }

    @Override
    public boolean isNullAt(int row) {
        return lengths[row] < 0;
    }

    @Override
    public byte[] getBinary(int row) {
        int start = starts[row];
        int length = lengths[row];
        return length < 0 ? null : Arrays.copyOfRange(source, start, start + length);
    }
}
