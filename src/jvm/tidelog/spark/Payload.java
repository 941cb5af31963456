package tidelog.spark;

import java.util.Arrays;

/** A growing array of decompressed bytes, which the records of several batches share. */
final class Payload {
    /** The largest decompressed batch that is read. Kafka sets no limit. */
    static final long MOST_BATCH_BYTES = 1L << 30;

    private static final int MOST_BYTES = Integer.MAX_VALUE - 8;

    byte[] data = new byte[1024 * 1024];
    int used;

    /** Make room for so many bytes after the used ones. */
    void reserve(long bytes, String codec) {
        if (bytes > MOST_BYTES - used) {
            throw tooLarge(codec);
        }
        int needed = used + (int) bytes;
        if (needed > data.length) {
            data = Arrays.copyOf(data, (int) Math.min(MOST_BYTES, Math.max((long) needed, 2L * data.length)));
        }
    }

    static CorruptRecordException tooLarge(String codec) {
        return new CorruptRecordException(String.format(
                "the %s data decompresses to more than %,d bytes, the most a batch may have", codec,
                MOST_BATCH_BYTES));
    }
}
