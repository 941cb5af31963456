package tidelog.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;

/** A column whose rows are all equal: a string, an int, a long, or null. */
final class ConstantColumn extends Column {
    private UTF8String text;
    private long number;
    private boolean isNull = true;

    ConstantColumn(DataType type) {
        super(type);
    }

    ConstantColumn set(String newText) {
        text = UTF8String.fromString(newText);
        isNull = false;
        return this;
    }

    ConstantColumn set(long newNumber) {
        number = newNumber;
        isNull = false;
        return this;
    }

    @Override
    public boolean hasNull() {
        return isNull;
    }

    @Override
    public boolean isNullAt(int row) {
        return isNull;
    }

    @Override
    public int getInt(int row) {
        return (int) number;
    }

    @Override
    public long getLong(int row) {
        return number;
    }

    @Override
    public UTF8String getUTF8String(int row) {
        return text;
    }
}
