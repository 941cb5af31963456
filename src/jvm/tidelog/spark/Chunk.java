package tidelog.spark;

/**
 * The bytes of a segment around the next batch, and the walk over the batches in them.
 *
 * <p>A chunk begins at a batch's start. A batch that reaches past the bytes stays in front of the next ones. For a
 * batch larger than a chunk, the buffer grows to its size, never past the file's end. The records of a chunk refer to
 * its bytes until the next {@link #load}.
 */
final class Chunk {
    /** The end of a walk. */
    enum Stop {
        END("nothing follows"),
        PARTIAL("a batch is incomplete"),
        BAD_SIZE("a batch's length field is below the smallest batch"),
        BAD_MAGIC("a batch has an unknown format version (magic)");

        final String reason;

        Stop(String reason) {
            this.reason = reason;
        }
    }

    private static final int FIRST_BYTES = 64 * 1024;
    private static final int MOST_BYTES = 1024 * 1024;
    private static final int HEADER_UP_TO_MAGIC = 17;

    private SegmentFile file;
    private boolean verifyCrc;
    private long end;
    private long basePosition;
    private int length;
    private int next;
    private int usual = FIRST_BYTES;
    private int partialSize;
    private boolean isLast;

    byte[] data = new byte[FIRST_BYTES];
    final BatchHeader batch = new BatchHeader();
    Stop stop = Stop.END;

    /** Begin at a batch's start. No byte after {@code end} is read. */
    void begin(SegmentFile file, long position, long end, boolean verifyCrc) {
        this.file = file;
        this.verifyCrc = verifyCrc;
        this.end = end;
        basePosition = position;
        length = next = 0;
        isLast = position >= end;
        stop = Stop.END;
        partialSize = 0;
    }

    long position() {
        return basePosition + next;
    }

    /** Return the position of the batch in the file. */
    long batchPosition() {
        return basePosition + batch.index;
    }

    /** Read the next bytes. Return False at the end, and {@link #stop} then tells why. */
    boolean load() {
        if (isLast) {
            return false;
        }
        int kept = length - next;
        long left = end - basePosition - next;
        int wanted = (int) Math.min(left, Math.max(usual, Math.max((long) partialSize, kept + 1L)));
        if (wanted > data.length) {
            byte[] larger = new byte[wanted];
            System.arraycopy(data, next, larger, 0, kept);
            data = larger;
        } else if (next > 0) {
            System.arraycopy(data, next, data, 0, kept);
        }
        basePosition += next;
        next = 0;
        length = kept + file.read(basePosition + kept, data, kept, wanted - kept);
        if (length < wanted) {
            end = basePosition + length; // the owner truncated the file
        }
        isLast = basePosition + length >= end;
        usual = Math.min(2 * usual, MOST_BYTES);
        stop = Stop.END;
        return length > 0;
    }

    /** Read the header of the next complete batch. Return False at the end of the bytes, or at invalid ones. */
    boolean nextBatch() {
        int left = length - next;
        partialSize = 0;
        if (left <= HEADER_UP_TO_MAGIC) {
            return ended(left == 0 ? Stop.END : Stop.PARTIAL);
        }
        int size = Bytes.getInt(data, next + Bytes.LENGTH_AT);
        if (size < Bytes.smallestLength(0)) {
            return invalid(Stop.BAD_SIZE);
        }
        if (size > left - Bytes.PREFIX) {
            partialSize = (int) Math.min(size + (long) Bytes.PREFIX, Integer.MAX_VALUE);
            if (basePosition + next + size + (long) Bytes.PREFIX > end) {
                isLast = true; // it stays incomplete, even if more bytes are read
            }
            return ended(Stop.PARTIAL);
        }
        int magic = data[next + Bytes.MAGIC_AT];
        if (magic < 0 || magic > 2) {
            return invalid(Stop.BAD_MAGIC);
        }
        if (size < Bytes.smallestLength(magic)) {
            return invalid(Stop.BAD_SIZE);
        }
        batch.read(data, next, size + Bytes.PREFIX, verifyCrc);
        next += size + Bytes.PREFIX;
        return true;
    }

    private boolean ended(Stop kind) {
        stop = kind;
        return false;
    }

    private boolean invalid(Stop kind) {
        isLast = true;
        return ended(kind);
    }

}
