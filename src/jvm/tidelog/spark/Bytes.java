package tidelog.spark;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/**
 * Big-endian numbers in an array of bytes, and the places of a batch's fields. Each access is within bounds, or
 * fails.
 */
final class Bytes {
    private static final VarHandle SHORTS = view(short[].class);
    private static final VarHandle INTS = view(int[].class);
    private static final VarHandle LONGS = view(long[].class);

    /** The bytes of base offset and length, which the length does not count. */
    static final int PREFIX = 12;

    static final int LENGTH_AT = 8;
    static final int LEADER_EPOCH_AT = 12;
    static final int MAGIC_AT = 16;
    static final int CRC_AT = 17;
    static final int ATTRIBUTES_AT = 21;
    static final int LAST_OFFSET_DELTA_AT = 23;
    static final int BASE_TIMESTAMP_AT = 27;
    static final int MAX_TIMESTAMP_AT = 35;
    static final int PRODUCER_ID_AT = 43;
    static final int PRODUCER_EPOCH_AT = 51;
    static final int BASE_SEQUENCE_AT = 53;
    static final int RECORD_COUNT_AT = 57;
    static final int V2_HEADER = 61;

    /** The bytes of the smallest record of format v2. */
    static final int MIN_RECORD = 7;

    private static final int[] SMALLEST_LENGTHS = {14, 22, V2_HEADER - PREFIX};

    private Bytes() {}

    private static VarHandle view(Class<?> kind) {
        return MethodHandles.byteArrayViewVarHandle(kind, ByteOrder.BIG_ENDIAN);
    }

    static int smallestLength(int magic) {
        return SMALLEST_LENGTHS[magic];
    }

    static short getShort(byte[] data, int at) {
        return (short) SHORTS.get(data, at);
    }

    static int getInt(byte[] data, int at) {
        return (int) INTS.get(data, at);
    }

    static long getLong(byte[] data, int at) {
        return (long) LONGS.get(data, at);
    }
}
