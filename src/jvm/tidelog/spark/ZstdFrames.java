package tidelog.spark;

/**
 * The bound on the plain bytes of zstd frames, from the headers of their blocks (RFC 8878).
 *
 * <p>Kafka's client writes no content size, and a block has at most 128 KiB of plain bytes.
 */
final class ZstdFrames {
    private static final int MAGIC = 0xFD2FB528;
    private static final int SKIPPABLE_MAGIC = 0x184D2A50;
    private static final int SKIPPABLE_MASK = 0xFFFFFFF0;
    private static final int BLOCK_BYTES = 128 * 1024;
    private static final int BLOCK_HEADER = 3;
    private static final int CHECKSUM = 4;
    private static final int[] DICTIONARY_ID_BYTES = {0, 1, 2, 4};
    private static final int[] CONTENT_SIZE_BYTES = {0, 2, 4, 8};

    private final byte[] data;
    private final int end;
    private int next;

    private ZstdFrames(byte[] data, int at, int length) {
        this.data = data;
        next = at;
        end = at + length;
    }

    /** Return the bound for all frames. Throw CorruptRecordException if the bytes are no complete frames. */
    static long bound(byte[] data, int at, int length) {
        ZstdFrames frames = new ZstdFrames(data, at, length);
        long total = 0;
        do {
            total += frames.frame();
        } while (frames.next < frames.end);
        return total;
    }

    private long frame() {
        int magic = littleEndian(4);
        if ((magic & SKIPPABLE_MASK) == SKIPPABLE_MAGIC) {
            skip(Integer.toUnsignedLong(littleEndian(4)));
            return 0;
        }
        if (magic != MAGIC) {
            throw new CorruptRecordException("the zstd data is corrupt: it does not begin with a frame header");
        }
        int descriptor = littleEndian(1);
        boolean isSingleSegment = (descriptor & 0x20) != 0;
        int sizeBytes = CONTENT_SIZE_BYTES[descriptor >>> 6];
        skip(isSingleSegment ? 0 : 1);
        skip(DICTIONARY_ID_BYTES[descriptor & 3]);
        skip(sizeBytes == 0 && isSingleSegment ? 1 : sizeBytes);
        long total = blocks();
        skip((descriptor & 4) != 0 ? CHECKSUM : 0);
        return total;
    }

    private long blocks() {
        long total = 0;
        while (true) {
            int header = littleEndian(BLOCK_HEADER);
            int size = header >>> 3;
            int kind = header >>> 1 & 3;
            total += kind == 2 ? BLOCK_BYTES : size; // a raw block and a repeated byte have their plain size
            skip(kind == 1 ? 1 : size);
            if ((header & 1) != 0) {
                return total;
            }
        }
    }

    private int littleEndian(int bytes) {
        int from = next;
        skip(bytes);
        int value = 0;
        for (int i = bytes - 1; i >= 0; i--) {
            value = value << 8 | data[from + i] & 0xff;
        }
        return value;
    }

    private void skip(long bytes) {
        if (bytes > end - next) {
            throw new CorruptRecordException("the zstd data ends inside a frame");
        }
        next += (int) bytes;
    }
}
