package tidelog.spark;

import java.util.function.IntUnaryOperator;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** Columns that are numbers of a record. */
final class NumberColumn {
    private NumberColumn() {}

    static final class Offsets extends Column {
        private long[] values;

        Offsets() {
            super(DataTypes.LongType);
        }

        void set(long[] newValues) {
            values = newValues;
        }

        @Override
        public long getLong(int row) {
            return values[row];
        }
    }

    /** The log's milliseconds as Spark's microseconds. A time that does not fit is null. */
    static final class Timestamps extends Column {
        private static final long MOST = Long.MAX_VALUE / 1000;

        static boolean isNull(long milliseconds) {
            return milliseconds > MOST || milliseconds < -MOST;
        }

        private long[] milliseconds;

        Timestamps() {
            super(DataTypes.TimestampType);
        }

        void set(long[] newMilliseconds) {
            milliseconds = newMilliseconds;
        }

        @Override
        public boolean hasNull() {
            return true;
        }

        @Override
        public boolean isNullAt(int row) {
            return isNull(milliseconds[row]);
        }

        @Override
        public long getLong(int row) {
            return milliseconds[row] * 1000;
        }
    }

    static final class TimestampTypes extends Column {
        private byte[] values;

        TimestampTypes() {
            super(DataTypes.IntegerType);
        }

        void set(byte[] newValues) {
            values = newValues;
        }

        @Override
        public int getInt(int row) {
            return values[row];
        }
    }

    /** A field of the record's batch. */
    static final class BatchField extends Column {
        private static final UTF8String[] CODECS = new UTF8String[Codecs.NAMES.length];

        static {
            for (int i = 0; i < CODECS.length; i++) {
                CODECS[i] = UTF8String.fromString(Codecs.NAMES[i]);
            }
        }

        private final RecordColumns records;
        private final IntUnaryOperator ints;
        private final boolean isProducerId;
        private final boolean isControlFlag;

        BatchField(String name, DataType type, RecordColumns records) {
            super(type);
            this.records = records;
            isProducerId = name.equals("producerId");
            isControlFlag = name.equals("isControl");
            ints = switch (name) {
                case "leaderEpoch" -> batch -> records.leaderEpoch[batch];
                case "producerEpoch" -> batch -> records.producerEpoch[batch];
                default -> batch -> records.baseSequence[batch];
            };
        }

        @Override
        public int getInt(int row) {
            return ints.applyAsInt(records.batchNumber[row]);
        }

        @Override
        public long getLong(int row) {
            return (isProducerId ? records.producerId : records.baseOffset)[records.batchNumber[row]];
        }

        @Override
        public boolean getBoolean(int row) {
            boolean[] flags = isControlFlag ? records.isControl : records.isTransactional;
            return flags[records.batchNumber[row]];
        }

        @Override
        public UTF8String getUTF8String(int row) {
            return CODECS[records.codec[records.batchNumber[row]]];
        }
    }
}
