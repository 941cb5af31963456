package tidelog.spark;

import com.github.luben.zstd.ZstdDecompressCtx;
import com.github.luben.zstd.ZstdException;
import com.github.luben.zstd.ZstdInputStreamNoFinalizer;
import java.io.ByteArrayInputStream;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.zip.GZIPInputStream;
import org.xerial.snappy.Snappy;

/**
 * The decompression of a batch's records, or of the value of a v0 or v1 message, by codec number.
 *
 * <p>Each declared size is checked against the best ratio of its codec before memory is taken. Libraries are Spark's
 * own. Thread rule: one thread.
 */
final class Codecs implements Closeable {
    static final String[] NAMES = {"none", "gzip", "snappy", "lz4", "zstd", "5", "6", "7"};

    private static final int DEFINED = 5;
    private static final int STEP_BYTES = 64 * 1024;
    private static final byte[] SNAPPY_MAGIC = {(byte) 0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};
    private static final int SNAPPY_HEADER = 16;
    private static final int SNAPPY_MOST_EXPANSION = 22;

    /** A bound on the plain bytes up to which zstd decompresses in one call. */
    private static final int ZSTD_ONE_CALL = 16 * 1024 * 1024;

    private ZstdDecompressCtx zstd;
    private Lz4Frames lz4;

    /** Append the plain bytes to {@code out}. Throw CorruptRecordException for data that is not of that codec. */
    void decompress(int codec, byte[] data, int at, int length, int magic, Payload out) {
        switch (codec) {
            case 1 -> gzip(data, at, length, out);
            case 2 -> snappy(data, at, length, out);
            case 3 -> {
                lz4 = lz4 == null ? new Lz4Frames() : lz4;
                lz4.decompress(data, at, length, magic, out);
            }
            case 4 -> {
                if (magic < 2) {
                    throw new CorruptRecordException(
                            "a message of format v" + magic + " cannot be compressed with zstd");
                }
                zstd(data, at, length, out);
            }
            default -> throw new CorruptRecordException("Kafka defines no compression codec " + codec
                    + "; it has 0 to 4 (" + String.join(", ", Arrays.copyOf(NAMES, DEFINED)) + ")");
        }
    }

    private static void gzip(byte[] data, int at, int length, Payload out) {
        try (InputStream plain = new GZIPInputStream(new ByteArrayInputStream(data, at, length), STEP_BYTES)) {
            readAll(plain, out, "gzip");
        } catch (EOFException error) {
            throw new CorruptRecordException("the gzip data ends before its end mark");
        } catch (IOException error) {
            throw new CorruptRecordException("the gzip data is corrupt: " + error.getMessage());
        }
    }

    private static void readAll(InputStream plain, Payload out, String codec) throws IOException {
        int start = out.used;
        int count;
        do {
            out.reserve(STEP_BYTES, codec);
            count = plain.read(out.data, out.used, out.data.length - out.used);
            out.used += Math.max(0, count);
            if (out.used - (long) start > Payload.MOST_BATCH_BYTES) {
                throw Payload.tooLarge(codec);
            }
        } while (count >= 0);
    }

    /**
     * Read a raw block, or the blocks of snappy-java's framing: a length before each, and perhaps a header again.
     *
     * <p>All lengths are checked before the first block is decompressed.
     */
    private static void snappy(byte[] data, int at, int length, Payload out) {
        int end = at + length;
        boolean isFramed = length >= SNAPPY_HEADER && isSnappyMagic(data, at);
        try {
            long total = 0;
            int first = isFramed ? nextSnappyBlock(data, at, end) : at;
            for (int block = first; block >= 0; block = isFramed ? afterSnappyBlock(data, block, end) : -1) {
                total += declaredSize(data, block, isFramed ? Bytes.getInt(data, block - Integer.BYTES) : length);
            }
            if (total > Payload.MOST_BATCH_BYTES) {
                throw Payload.tooLarge("snappy");
            }
            out.reserve(total, "snappy");
            for (int block = first; block >= 0; block = isFramed ? afterSnappyBlock(data, block, end) : -1) {
                int size = isFramed ? Bytes.getInt(data, block - Integer.BYTES) : length;
                out.used += Snappy.rawUncompress(data, block, size, out.data, out.used);
            }
        } catch (IOException error) {
            throw new CorruptRecordException("the snappy data is corrupt: " + error.getMessage());
        }
    }

    private static int afterSnappyBlock(byte[] data, int block, int end) {
        return nextSnappyBlock(data, block + Bytes.getInt(data, block - Integer.BYTES), end);
    }

    /** Return the start of the next block, whose length lies before it and is valid, or -1. Headers are passed over. */
    private static int nextSnappyBlock(byte[] data, int from, int end) {
        int next = from;
        while (end - next >= SNAPPY_MAGIC.length && isSnappyMagic(data, next)) {
            next += SNAPPY_HEADER;
        }
        if (end - next < Integer.BYTES) {
            return -1;
        }
        int size = Bytes.getInt(data, next);
        next += Integer.BYTES;
        if (size <= 0 || size > end - next) {
            throw new CorruptRecordException(
                    String.format("a snappy block declares %,d bytes where %,d are left", size, end - next));
        }
        return next;
    }

    private static boolean isSnappyMagic(byte[] data, int at) {
        return Arrays.equals(data, at, at + SNAPPY_MAGIC.length, SNAPPY_MAGIC, 0, SNAPPY_MAGIC.length);
    }

    private static int declaredSize(byte[] data, int at, int length) throws IOException {
        int size = length == 0 ? 0 : Snappy.uncompressedLength(data, at, length);
        if (length == 0 || size < 0 || size > (long) SNAPPY_MOST_EXPANSION * length) {
            throw new CorruptRecordException(
                    String.format("a snappy block of %,d bytes declares %,d, more than it can hold", length, size));
        }
        return size;
    }

    private void zstd(byte[] data, int at, int length, Payload out) {
        long bound = ZstdFrames.bound(data, at, length);
        try {
            if (bound > ZSTD_ONE_CALL) {
                zstdBySteps(data, at, length, out);
                return;
            }
            zstd = zstd == null ? new ZstdDecompressCtx() : zstd;
            out.reserve(bound, "zstd");
            out.used += zstd.decompressByteArray(out.data, out.used, (int) bound, data, at, length);
        } catch (ZstdException | IOException error) {
            throw new CorruptRecordException("the zstd data is corrupt: " + error.getMessage());
        }
    }

    private static void zstdBySteps(byte[] data, int at, int length, Payload out) throws IOException {
        try (InputStream plain = new ZstdInputStreamNoFinalizer(new ByteArrayInputStream(data, at, length))) {
            readAll(plain, out, "zstd");
        }
    }

    @Override
    public void close() {
        if (zstd != null) {
            zstd.close();
            zstd = null;
        }
    }
}
