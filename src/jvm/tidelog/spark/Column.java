package tidelog.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** A column of Spark over decoded records. Each kind overrides the accessors of its own type. */
abstract class Column extends ColumnVector {
    Column(DataType type) {
        super(type);
    }

    private UnsupportedOperationException otherType() {
        return new UnsupportedOperationException("a column of type " + type.catalogString() + " has no such values");
    }

    @Override
    public void close() {}

    /** Spark asks for nulls row by row if there may be any. */
    @Override
    public boolean hasNull() {
        return false;
    }

    @Override
    public int numNulls() {
        return hasNull() ? 1 : 0;
    }

    @Override
    public boolean isNullAt(int row) {
        return false;
    }

    @Override
    public boolean getBoolean(int row) {
        throw otherType();
    }

    @Override
    public byte getByte(int row) {
        throw otherType();
    }

    @Override
    public short getShort(int row) {
        throw otherType();
    }

    @Override
    public int getInt(int row) {
        throw otherType();
    }

    @Override
    public long getLong(int row) {
        throw otherType();
    }

    @Override
    public float getFloat(int row) {
        throw otherType();
    }

    @Override
    public double getDouble(int row) {
        throw otherType();
    }

    @Override
    public ColumnarArray getArray(int row) {
        throw otherType();
    }

    @Override
    public ColumnarMap getMap(int row) {
        throw otherType();
    }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
        throw otherType();
    }

    @Override
    public UTF8String getUTF8String(int row) {
        throw otherType();
    }

    @Override
    public byte[] getBinary(int row) {
        throw otherType();
    }

    @Override
    public ColumnVector getChild(int ordinal) {
        throw otherType();
    }
}
