package tidelog.spark;

import net.jpountz.lz4.LZ4Exception;
import net.jpountz.lz4.LZ4Factory;
import net.jpountz.lz4.LZ4SafeDecompressor;
import net.jpountz.xxhash.XXHash32;
import net.jpountz.xxhash.XXHashFactory;

/**
 * LZ4 frames: one is read, and bytes after it are ignored, as in Kafka.
 *
 * <p>The header's checksum is wrong in messages of format v0, and is ignored there. Blocks that refer to earlier ones
 * are decompressed here, because the library has only independent blocks.
 */
final class Lz4Frames {
    private static final int MAGIC = 0x04224D18;
    private static final int DESCRIPTOR_AT = 4;
    private static final int DICTIONARY_FLAG = 0x01;
    private static final int CONTENT_CHECKSUM_FLAG = 0x04;
    private static final int CONTENT_SIZE_FLAG = 0x08;
    private static final int BLOCK_CHECKSUM_FLAG = 0x10;
    private static final int INDEPENDENT_FLAG = 0x20;
    private static final int VERSION_MASK = 0xC0;
    private static final int VERSION = 0x40;
    private static final int LEAST_BLOCK_CODE = 4;
    private static final int MOST_EXPANSION = 255;

    private final LZ4SafeDecompressor blocks = LZ4Factory.fastestInstance().safeDecompressor();
    private final XXHash32 hash = XXHashFactory.fastestInstance().hash32();

    private byte[] data;
    private int next;
    private int end;

    void decompress(byte[] data, int at, int length, int magic, Payload out) {
        this.data = data;
        next = at;
        end = at + length;
        try {
            frame(at, magic, out);
        } catch (LZ4Exception error) {
            throw corrupt(error.getMessage());
        }
    }

    private void frame(int at, int magic, Payload out) {
        if (end - at < 7 || Bytes.getInt(data, at) != MAGIC) {
            throw new CorruptRecordException("the lz4 data does not begin with a frame header");
        }
        int flags = data[at + DESCRIPTOR_AT];
        int blockCode = data[at + DESCRIPTOR_AT + 1] >>> 4 & 7;
        if ((flags & DICTIONARY_FLAG) != 0) {
            throw new CorruptRecordException("the lz4 data wants a dictionary, which Kafka has none of");
        }
        next = at + DESCRIPTOR_AT + 2;
        checkContentSize(flags);
        byte checksum = (byte) (hash.hash(data, at + DESCRIPTOR_AT, next - at - DESCRIPTOR_AT, 0) >>> 8);
        if (magic != 0 && data[next] != checksum) {
            throw corrupt("the checksum of its header is wrong");
        }
        next++;
        if ((flags & VERSION_MASK) != VERSION || blockCode < LEAST_BLOCK_CODE) {
            throw corrupt("its header is invalid");
        }
        int start = out.used;
        int blockBytes = 1 << 2 * blockCode + 8;
        boolean isLinked = (flags & INDEPENDENT_FLAG) == 0;
        for (int size = word(); size != 0; size = word()) {
            block(size, blockBytes, isLinked ? start : -1, out);
            if ((flags & BLOCK_CHECKSUM_FLAG) != 0) {
                check(data, next - (size & Integer.MAX_VALUE), size & Integer.MAX_VALUE);
            }
            if (out.used - (long) start > Payload.MOST_BATCH_BYTES) {
                throw Payload.tooLarge("lz4");
            }
        }
        if ((flags & CONTENT_CHECKSUM_FLAG) != 0) {
            check(out.data, start, out.used - start);
        }
    }

    private void checkContentSize(int flags) {
        if ((flags & CONTENT_SIZE_FLAG) == 0) {
            return;
        }
        if (end - next < Long.BYTES + 1) {
            throw new CorruptRecordException("the lz4 data ends inside its frame header");
        }
        long declared = Long.reverseBytes(Bytes.getLong(data, next));
        int length = end - next + DESCRIPTOR_AT + 2;
        if (declared < 0 || declared > Payload.MOST_BATCH_BYTES) {
            throw Payload.tooLarge("lz4");
        }
        if (declared > (long) MOST_EXPANSION * length) {
            throw new CorruptRecordException(String.format(
                    "%,d bytes of lz4 data declare %,d, more than they can hold", length, declared));
        }
        next += Long.BYTES;
    }

    private int word() {
        if (end - next < Integer.BYTES) {
            throw corrupt("it ends before its end mark");
        }
        int value = Integer.reverseBytes(Bytes.getInt(data, next));
        next += Integer.BYTES;
        return value;
    }

    /** Append a block; the highest bit of its size means plain bytes. {@code start} is -1 for independent blocks. */
    private void block(int marked, int blockBytes, int start, Payload out) {
        int size = marked & Integer.MAX_VALUE;
        if (size > end - next) {
            throw corrupt("it ends inside a block");
        }
        out.reserve(marked < 0 ? size : blockBytes, "lz4");
        if (marked < 0) {
            System.arraycopy(data, next, out.data, out.used, size);
            out.used += size;
        } else if (start < 0) {
            out.used += blocks.decompress(data, next, size, out.data, out.used, blockBytes);
        } else {
            linkedBlock(next + size, start, out.used + blockBytes, out);
        }
        next += size;
    }

    private void check(byte[] bytes, int at, int length) {
        if (word() != hash.hash(bytes, at, length, 0)) {
            throw corrupt("a checksum is wrong");
        }
    }

    /** Decompress a block up to {@code stop}, whose matches may begin anywhere from {@code start} on. */
    private void linkedBlock(int stop, int start, int limit, Payload out) {
        byte[] plain = out.data;
        int from = next;
        int to = out.used;
        while (from < stop) {
            int token = data[from++] & 0xff;
            int literals = token >>> 4;
            for (int more = literals == 15 ? 255 : 0; more == 255; literals += more) {
                more = from < stop ? data[from++] & 0xff : fail();
            }
            if (literals < 0 || literals > stop - from || literals > limit - to) {
                fail();
            }
            System.arraycopy(data, from, plain, to, literals);
            from += literals;
            to += literals;
            if (from == stop) {
                break; // the last sequence has no match
            }
            int distance = stop - from < 2 ? fail() : data[from] & 0xff | (data[from + 1] & 0xff) << 8;
            from += 2;
            int length = token & 15;
            for (int more = length == 15 ? 255 : 0; more == 255; length += more) {
                more = from < stop ? data[from++] & 0xff : fail();
            }
            length += 4;
            if (distance == 0 || distance > to - start || length < 0 || length > limit - to) {
                fail();
            }
            for (int i = 0; i < length; i++, to++) {
                plain[to] = plain[to - distance];
            }
        }
        out.used = to;
    }

    private static int fail() {
        throw corrupt("a block is invalid");
    }

    private static CorruptRecordException corrupt(String reason) {
        return new CorruptRecordException("the lz4 data is corrupt: " + reason);
    }
}
