package tidelog.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;

/**
 * Messages of the formats v0 and v1, alone or as a compressed set inside one wrapper message.
 *
 * <p>A message is: offset int64, size int32, crc uint32, magic int8, attributes int8, timestamp int64 (v1), key length
 * int32, key, value length int32, value. The offsets in a wrapper of v1 are relative to its own, which is the last
 * one's, and a wrapper with log append time has the timestamp of all. A partial message ends a set.
 */
final class LegacyMessages {
    private static final int CRC_AT = 12;
    private static final int MAGIC_AT = 16;
    private static final int ATTRIBUTES_AT = 17;
    private static final int FIELDS_AT = 18;
    private static final int CODEC = 7;
    private static final int LOG_APPEND = 8;

    private final RecordColumns columns;
    private final Codecs codecs;
    private final long startOffset;
    private final long endOffset;

    LegacyMessages(RecordColumns columns, Codecs codecs, long startOffset, long endOffset) {
        this.columns = columns;
        this.codecs = codecs;
        this.startOffset = startOffset;
        this.endOffset = endOffset;
    }

    private record Message(
            long offset, long timestamp, int timestampType, int magic, int attributes, boolean crcOk, int key,
            int keyLength, int value, int valueLength) {
        int codec() {
            return attributes & CODEC;
        }

        Message at(long newOffset, long newTimestamp, int newType) {
            return new Message(newOffset, newTimestamp, newType, magic, attributes, crcOk, key, keyLength, value,
                    valueLength);
        }
    }

    /** Add the records of a message in {@code data}. Plain bytes of a wrapper are appended to {@code payload}. */
    void add(BatchHeader batch, byte[] data, Payload payload) {
        Message outer = parse(data, batch.index, batch.index + batch.size, false);
        int rows = columns.rows;
        if (outer.codec() == 0) {
            columns.reserve(1);
            put(outer);
        } else {
            if (outer.valueLength < 0) {
                throw new CorruptRecordException("a compressed wrapper message has no value");
            }
            int start = payload.used;
            codecs.decompress(outer.codec(), data, outer.value, outer.valueLength, outer.magic, payload);
            List<Message> inner = unwrapped(outer, readSet(payload.data, start, payload.used));
            columns.reserve(inner.size());
            inner.forEach(this::put);
        }
        columns.endBatch(batch, rows);
    }

    private void put(Message message) {
        if (message.offset < startOffset || message.offset >= endOffset) {
            return;
        }
        int row = columns.rows++;
        if (columns.hasNumbers) {
            columns.offset[row] = message.offset;
            columns.timestamp[row] = message.timestamp;
            columns.timestampType[row] = (byte) message.timestampType;
        }
        if (columns.hasKeys) {
            columns.keyStart[row] = message.key;
            columns.keyLength[row] = message.keyLength;
        }
        if (columns.hasValues) {
            columns.valueStart[row] = message.value;
            columns.valueLength[row] = message.valueLength;
        }
        if (columns.hasHeaders) {
            columns.headersEnd[row] = columns.headers;
        }
    }

    private static List<Message> readSet(byte[] data, int start, int end) {
        List<Message> messages = new ArrayList<>();
        int at = start;
        while (end - at >= Bytes.PREFIX) {
            int size = Bytes.getInt(data, at + Bytes.LENGTH_AT);
            if (size < Bytes.smallestLength(0)) {
                throw new CorruptRecordException("a message inside a wrapper declares " + size
                        + " bytes; the least is " + Bytes.smallestLength(0));
            }
            if (size > end - at - Bytes.PREFIX) {
                break;
            }
            messages.add(parse(data, at, at + Bytes.PREFIX + size, true));
            at += Bytes.PREFIX + size;
        }
        if (messages.isEmpty()) {
            throw new CorruptRecordException("a compressed wrapper message holds no messages");
        }
        for (Message message : messages) {
            if (!message.crcOk) {
                throw new CorruptRecordException(
                        "the CRC of a message inside a wrapper is wrong, inner offset " + message.offset);
            }
            if (message.codec() != 0) {
                throw new CorruptRecordException("a message inside a compressed wrapper is compressed itself");
            }
        }
        return messages;
    }

    private static List<Message> unwrapped(Message wrapper, List<Message> messages) {
        if (wrapper.magic == 0) {
            return messages;
        }
        long last = messages.get(messages.size() - 1).offset;
        long shift = wrapper.offset == 0 ? 0 : wrapper.offset - last;
        if (shift < 0) {
            throw new CorruptRecordException("a wrapper has the offset " + wrapper.offset + ", less than the " + last
                    + " of the last message inside");
        }
        boolean isLogAppend = wrapper.timestampType == 1;
        List<Message> moved = new ArrayList<>(messages.size());
        for (Message inner : messages) {
            long timestamp = isLogAppend ? wrapper.timestamp : inner.timestamp;
            moved.add(inner.at(inner.offset + shift, timestamp, isLogAppend ? 1 : 0));
        }
        return moved;
    }

    private static Message parse(byte[] data, int at, int end, boolean checkCrc) {
        int magic = data[at + MAGIC_AT];
        int attributes = data[at + ATTRIBUTES_AT];
        if (magic != 0 && magic != 1) {
            throw new CorruptRecordException("a message has the magic " + magic + ", but only 0 and 1 are possible");
        }
        if (end - at < Bytes.PREFIX + Bytes.smallestLength(magic)) {
            throw new CorruptRecordException(
                    "a message of magic 1 has " + (end - at) + " bytes, too few for its header");
        }
        boolean crcOk = !checkCrc || crc(data, at + MAGIC_AT, end) == Bytes.getInt(data, at + CRC_AT);
        int position = at + FIELDS_AT + (magic == 1 ? Long.BYTES : 0);
        long timestamp = magic == 1 ? Bytes.getLong(data, at + FIELDS_AT) : -1;
        int type = magic == 0 ? -1 : (attributes & LOG_APPEND) != 0 ? 1 : 0;
        int keyLength = length(data, position, end, "key");
        int key = position + Integer.BYTES;
        position = key + Math.max(0, keyLength);
        int valueLength = length(data, position, end, "value");
        return new Message(Bytes.getLong(data, at), timestamp, type, magic, attributes, crcOk, key, keyLength,
                position + Integer.BYTES, valueLength);
    }

    private static int length(byte[] data, int at, int end, String field) {
        if (end - at < Integer.BYTES) {
            throw new CorruptRecordException("a message ends before the length of its " + field);
        }
        int length = Bytes.getInt(data, at);
        int left = end - at - Integer.BYTES;
        if (length > left) {
            throw new CorruptRecordException(
                    String.format("a message's %s declares %,d bytes where %,d are left", field, length, left));
        }
        return length;
    }

    private static int crc(byte[] data, int from, int end) {
        CRC32 crc = new CRC32();
        crc.update(data, from, end - from);
        return (int) crc.getValue();
    }
}
