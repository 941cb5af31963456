package tidelog.spark;

/**
 * The walk over the records of a v2 batch into columns.
 *
 * <p>A record begins with its length (varint), attributes (int8), timestamp delta (varlong) and offset delta (varint).
 * Key, value and the number of headers (varint) follow, then each header's key and value. A length (varint) lies before
 * each of these byte strings. A negative key or value length is null. Every length is compared with the remaining bytes before
 * its use. A batch is added completely or not at all.
 */
final class RecordDecoder {
    private static final int MIN_BODY = 6;
    private static final int VARINT_BYTES = 5;
    private static final int VARLONG_BYTES = 10;

    private final RecordColumns columns;
    private final long startOffset;
    private final long endOffset;

    /** The next byte after a varint, or -1 for bytes that are none. */
    private int next;

    private int done;

    RecordDecoder(RecordColumns columns, long startOffset, long endOffset) {
        this.columns = columns;
        this.startOffset = startOffset;
        this.endOffset = endOffset;
    }

    /** Add the records in {@code data[at, end)}. Throw CorruptRecordException without a place for an invalid one. */
    void add(BatchHeader batch, byte[] data, int at, int end) {
        if ((long) batch.recordCount * Bytes.MIN_RECORD > end - at) {
            throw new CorruptRecordException(Fault.RECORD_COUNT.sentence(0, 0));
        }
        int rows = columns.rows;
        int headers = columns.headers;
        columns.reserve(batch.recordCount);
        done = 0;
        Fault fault = walk(batch, data, at, end);
        if (fault != Fault.NONE) {
            columns.rows = rows;
            columns.headers = headers;
            throw new CorruptRecordException(fault.sentence(done, batch.recordCount));
        }
        columns.endBatch(batch, rows);
    }

    private Fault walk(BatchHeader batch, byte[] data, int at, int end) {
        RecordColumns c = columns;
        long lastDelta = batch.lastOffset - batch.baseOffset;
        boolean isLogAppend = batch.isLogAppend();
        byte timestampType = (byte) (isLogAppend ? 1 : 0);
        int p = at;
        int row = c.rows;
        for (int index = 0; index < batch.recordCount; index++) {
            done = index;
            int length = varint(data, p, end);
            p = next;
            if (p < 0 || length < MIN_BODY || length > end - p) {
                return Fault.RECORD_LENGTH;
            }
            int stop = p + length;
            long timestampDelta = varlong(data, p + 1, stop);
            if (next < 0) {
                return Fault.TIMESTAMP;
            }
            int delta = varint(data, next, stop);
            if (next < 0 || delta < 0 || delta > lastDelta) {
                return Fault.OFFSET;
            }
            int keyLength = varint(data, next, stop);
            p = next;
            if (p < 0 || keyLength > stop - p) {
                return Fault.KEY;
            }
            int key = p;
            int valueLength = varint(data, keyLength < 0 ? p : p + keyLength, stop);
            p = next;
            if (p < 0 || valueLength > stop - p) {
                return Fault.VALUE;
            }
            int value = p;
            p = valueLength < 0 ? p : p + valueLength;
            long offset = batch.baseOffset + delta;
            boolean keep = offset >= startOffset && offset < endOffset;
            if (stop - p != 1 || data[p] != 0) { // most records have no headers
                Fault fault = headers(data, p, stop, keep && c.hasHeaders);
                if (fault != Fault.NONE) {
                    return fault;
                }
            }
            p = stop;
            if (!keep) {
                continue;
            }
            if (c.hasNumbers) {
                c.offset[row] = offset;
                c.timestamp[row] = isLogAppend ? batch.maxTimestamp : batch.baseTimestamp + timestampDelta;
                c.timestampType[row] = timestampType;
            }
            if (c.hasKeys) {
                c.keyStart[row] = key;
                c.keyLength[row] = keyLength;
            }
            if (c.hasValues) {
                c.valueStart[row] = value;
                c.valueLength[row] = valueLength;
            }
            if (c.hasHeaders) {
                c.headersEnd[row] = c.headers;
            }
            row++;
        }
        if (p != end) {
            return Fault.BATCH_END;
        }
        c.rows = row;
        return Fault.NONE;
    }

    /** Check a record's headers, which must end at {@code stop}, and add them to the columns if {@code keep}. */
    private Fault headers(byte[] data, int at, int stop, boolean keep) {
        int count = varint(data, at, stop);
        int p = next;
        if (p < 0 || count < 0 || count > (stop - p) / 2) {
            return Fault.HEADER_COUNT;
        }
        for (int i = 0; i < count; i++) {
            int keyLength = varint(data, p, stop);
            if (next < 0 || keyLength < 0 || keyLength > stop - next) {
                return Fault.HEADER_KEY;
            }
            int key = next;
            int valueLength = varint(data, key + keyLength, stop);
            if (next < 0 || valueLength > stop - next) {
                return Fault.HEADER_VALUE;
            }
            int value = next;
            p = valueLength < 0 ? value : value + valueLength;
            if (keep) {
                columns.addHeader(key, keyLength, value, valueLength);
            }
        }
        return p == stop ? Fault.NONE : Fault.RECORD_END;
    }

    /** Return the zigzag varint at {@code p}, and let {@link #next} point after it. */
    private int varint(byte[] data, int p, int end) {
        if (p < end) {
            int first = data[p];
            if (first >= 0) {
                next = p + 1;
                return first >>> 1 ^ -(first & 1);
            }
            if (p + 1 < end) {
                int second = data[p + 1];
                if (second >= 0) {
                    next = p + 2;
                    int value = first & 0x7f | second << 7;
                    return value >>> 1 ^ -(value & 1);
                }
            }
        }
        return longVarint(data, p, end);
    }

    private int longVarint(byte[] data, int p, int end) {
        int value = (int) unsigned(data, p, end, VARINT_BYTES);
        return value >>> 1 ^ -(value & 1);
    }

    private long varlong(byte[] data, int p, int end) {
        long value = unsigned(data, p, end, VARLONG_BYTES);
        return value >>> 1 ^ -(value & 1);
    }

    /** Return the bits of a varint of at most so many bytes, or 0 if there is none. Let {@link #next} point after it. */
    private long unsigned(byte[] data, int p, int end, int mostBytes) {
        long value = 0;
        for (int i = 0; i < mostBytes && p + i < end; i++) {
            long part = data[p + i];
            value |= (part & 0x7f) << 7 * i;
            if (part >= 0) {
                next = p + i + 1;
                return value;
            }
        }
        next = -1;
        return 0;
    }
}
