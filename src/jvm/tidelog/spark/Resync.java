package tidelog.spark;

/**
 * The search for the next valid batch after damaged bytes, as the Python reader's {@code resync} does it.
 *
 * <p>If the damaged batch's length field is right, the next batch lies where it points. Otherwise each byte may be a
 * batch's start: first format, length and offset are checked, then the CRC.
 */
final class Resync {
    private static final int WINDOW_BYTES = 1024 * 1024;

    private final SegmentFile file;
    private final long bad;
    private final long end;
    private final Chunk chunk = new Chunk(false);

    Resync(SegmentFile file, long bad, long endPosition) {
        this.file = file;
        this.bad = bad;
        end = endPosition < 0 ? file.size() : Math.min(endPosition, file.size());
    }

    /**
     * Return the position of the first valid batch after the damaged one, or -1. A valid batch has a correct CRC, a
     * correct header, and a first offset in {@code [firstOffset, endOffset)}.
     */
    long nextValidBatch(long firstOffset, long endOffset) {
        long neighbour = neighbour();
        if (neighbour >= 0 && isValid(neighbour, firstOffset, endOffset)) {
            return neighbour;
        }
        byte[] window = new byte[(int) Math.min(WINDOW_BYTES + (long) Bytes.MAGIC_AT, Math.max(0, end - bad))];
        for (long position = bad + 1; position < end; position += WINDOW_BYTES) {
            int length = file.read(position, window, 0, (int) Math.min(window.length, end - position));
            int count = Math.min(length - Bytes.MAGIC_AT, WINDOW_BYTES);
            for (int at = 0; at < count; at++) {
                if (isPlausible(window, at, end - position, firstOffset, endOffset)
                        && isValid(position + at, firstOffset, endOffset)) {
                    return position + at;
                }
            }
            if (count <= 0) {
                return -1;
            }
        }
        return -1;
    }

    private long neighbour() {
        byte[] length = new byte[Integer.BYTES];
        if (file.read(bad + Bytes.LENGTH_AT, length, 0, length.length) < length.length) {
            return -1;
        }
        int size = Bytes.getInt(length, 0);
        long position = bad + Bytes.PREFIX + size;
        return size > 0 && position < end ? position : -1;
    }

    private static boolean isPlausible(byte[] window, int at, long available, long firstOffset, long endOffset) {
        int magic = window[at + Bytes.MAGIC_AT];
        if (magic < 0 || magic > 2) {
            return false;
        }
        long offset = Bytes.getLong(window, at);
        int size = Bytes.getInt(window, at + Bytes.LENGTH_AT);
        return offset >= firstOffset && offset < endOffset && size >= Bytes.smallestLength(magic)
                && at + Bytes.PREFIX + (long) size <= available;
    }

    private boolean isValid(long position, long firstOffset, long endOffset) {
        chunk.begin(file, position, end, true);
        while (chunk.load()) {
            if (chunk.nextBatch()) {
                BatchHeader batch = chunk.batch;
                return batch.crcOk && batch.headerOk && firstOffset <= batch.baseOffset
                        && batch.baseOffset < endOffset;
            }
        }
        return false;
    }
}
