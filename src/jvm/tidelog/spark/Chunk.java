package tidelog.spark;

/**
 * The bytes of a segment around the next batch, and the walk over the batches in them.
 *
 * <p>If only headers are read, the records of large batches are passed over, until {@link #openBatch} reads them. A
 * chunk then has bytes of one header. Where batches are small, it is as any other.
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

    /** Fewer bytes of records are read rather than passed over. */
    private static final int LEAST_PASSED_BYTES = 4096;

    private final boolean headersOnly;

    private SegmentFile file;
    private boolean verifyCrc;
    private long end;
    private long basePosition;
    private int length;
    private int next;
    private int usual = FIRST_BYTES;
    private int partialSize;

    /** The bytes of the current batch that lie after the buffer. */
    private int passed;

    private boolean isLast;

    byte[] data = new byte[FIRST_BYTES];
    final BatchHeader batch = new BatchHeader();
    Stop stop = Stop.END;

    Chunk(boolean headersOnly) {
        this.headersOnly = headersOnly;
    }

    /** Begin at a batch's start. No byte after {@code end} is read. */
    void begin(SegmentFile file, long position, long end, boolean verifyCrc) {
        this.file = file;
        this.verifyCrc = verifyCrc;
        this.end = end;
        basePosition = position;
        length = next = passed = 0;
        isLast = position >= end;
        stop = Stop.END;
        partialSize = 0;
    }

    long position() {
        return basePosition + next + passed;
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
        long left = end - position();
        int step = passed > LEAST_PASSED_BYTES ? Bytes.V2_HEADER : usual;
        int wanted = (int) Math.min(left, Math.max(step, Math.max((long) partialSize, kept + 1L)));
        if (wanted > data.length) {
            byte[] larger = new byte[wanted];
            System.arraycopy(data, next, larger, 0, kept);
            data = larger;
        } else if (next > 0) {
            System.arraycopy(data, next, data, 0, kept);
        }
        basePosition = position();
        next = passed = 0;
        length = kept + file.read(basePosition + kept, data, kept, wanted - kept);
        if (length < wanted) {
            end = basePosition + length; // the owner truncated the file
        }
        isLast = basePosition + length >= end;
        usual = headersOnly ? usual : Math.min(2 * usual, MOST_BYTES);
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
        long wholeSize = size + (long) Bytes.PREFIX;
        boolean isIncomplete = basePosition + next + wholeSize > end;
        long needed = headersOnly ? Math.min(wholeSize, Bytes.V2_HEADER) : wholeSize;
        if (needed > left || isIncomplete) {
            partialSize = (int) Math.min(needed, Integer.MAX_VALUE);
            isLast |= isIncomplete; // it stays incomplete, even if more bytes are read
            return ended(Stop.PARTIAL);
        }
        int magic = data[next + Bytes.MAGIC_AT];
        if (magic < 0 || magic > 2) {
            return invalid(Stop.BAD_MAGIC);
        }
        if (size < Bytes.smallestLength(magic) || wholeSize > Integer.MAX_VALUE) {
            return invalid(Stop.BAD_SIZE);
        }
        batch.read(data, next, (int) wholeSize, verifyCrc && !headersOnly);
        int present = (int) Math.min(wholeSize, left);
        next += present;
        passed = (int) wholeSize - present;
        return true;
    }

    /** Read the records of a batch whose header was read, and check its CRC. Return False if the file is shorter now. */
    boolean openBatch() {
        if (passed > 0) {
            int kept = length - batch.index;
            byte[] target = batch.size > data.length ? new byte[batch.size] : data;
            System.arraycopy(data, batch.index, target, 0, kept);
            data = target;
            basePosition += batch.index;
            batch.index = 0;
            length = next = kept + file.read(basePosition + kept, data, kept, batch.size - kept);
            passed = 0;
            if (length < batch.size) {
                return false;
            }
            isLast = basePosition + length >= end;
        }
        batch.read(data, batch.index, batch.size, verifyCrc);
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
