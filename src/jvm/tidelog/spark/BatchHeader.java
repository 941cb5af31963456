package tidelog.spark;

import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import java.util.zip.Checksum;

/**
 * The header of one batch, of any format: a v2 batch, or a message of v0 or v1.
 *
 * <p>{@link #read} takes a batch whose size is known to lie in the buffer. A message has the numbers that it lacks as
 * -1, and the offset of its last record as both offsets.
 */
final class BatchHeader {
    private static final int CODEC = 7;
    private static final int LOG_APPEND = 8;
    private static final int TRANSACTIONAL = 16;
    private static final int CONTROL = 32;
    private static final int MESSAGE_CRC_AT = 12;
    private static final int MESSAGE_ATTRIBUTES_AT = 17;
    private static final int MESSAGE_TIMESTAMP_AT = 18;

    private final CRC32C crcOfBatch = new CRC32C();
    private final CRC32 crcOfMessage = new CRC32();

    /** The index in the buffer, and the size in bytes. */
    int index;

    int size;
    int magic;
    int attributes;
    int recordCount;
    int leaderEpoch;
    int baseSequence;
    int crc;
    short producerEpoch;
    long baseOffset;
    long lastOffset;
    long baseTimestamp;
    long maxTimestamp;
    long producerId;
    boolean crcOk;
    boolean headerOk;

    void read(byte[] data, int at, int bytes, boolean verifyCrc) {
        index = at;
        size = bytes;
        magic = data[at + Bytes.MAGIC_AT];
        baseOffset = Bytes.getLong(data, at);
        if (magic == 2) {
            readHeader(data, at);
        } else {
            readMessage(data, at);
        }
        crcOk = !verifyCrc || computeCrc(data) == crc;
    }

    private void readHeader(byte[] data, int at) {
        int delta = Bytes.getInt(data, at + Bytes.LAST_OFFSET_DELTA_AT);
        lastOffset = baseOffset + delta;
        attributes = Bytes.getShort(data, at + Bytes.ATTRIBUTES_AT);
        recordCount = Bytes.getInt(data, at + Bytes.RECORD_COUNT_AT);
        leaderEpoch = Bytes.getInt(data, at + Bytes.LEADER_EPOCH_AT);
        baseSequence = Bytes.getInt(data, at + Bytes.BASE_SEQUENCE_AT);
        producerEpoch = Bytes.getShort(data, at + Bytes.PRODUCER_EPOCH_AT);
        producerId = Bytes.getLong(data, at + Bytes.PRODUCER_ID_AT);
        baseTimestamp = Bytes.getLong(data, at + Bytes.BASE_TIMESTAMP_AT);
        maxTimestamp = Bytes.getLong(data, at + Bytes.MAX_TIMESTAMP_AT);
        crc = Bytes.getInt(data, at + Bytes.CRC_AT);
        headerOk = baseOffset >= 0 && delta >= 0 && lastOffset >= 0 && recordCount >= 0 && recordCount <= delta + 1L
                && (codec() != 0 || (long) recordCount * Bytes.MIN_RECORD <= size - Bytes.V2_HEADER);
    }

    private void readMessage(byte[] data, int at) {
        lastOffset = baseOffset;
        attributes = data[at + MESSAGE_ATTRIBUTES_AT] & 0xff;
        recordCount = codec() == 0 ? 1 : -1;
        leaderEpoch = baseSequence = -1;
        producerEpoch = -1;
        producerId = -1;
        baseTimestamp = maxTimestamp = magic == 1 ? Bytes.getLong(data, at + MESSAGE_TIMESTAMP_AT) : -1;
        crc = Bytes.getInt(data, at + MESSAGE_CRC_AT);
        headerOk = baseOffset >= 0;
    }

    private int computeCrc(byte[] data) {
        Checksum checksum = magic == 2 ? crcOfBatch : crcOfMessage;
        int from = magic == 2 ? Bytes.ATTRIBUTES_AT : Bytes.MAGIC_AT;
        checksum.reset();
        checksum.update(data, index + from, size - from);
        return (int) checksum.getValue();
    }

    int codec() {
        return attributes & CODEC;
    }

    /** Return True for a message of v0 or v1 that has a compressed set of messages inside. */
    boolean isWrapper() {
        return magic < 2 && codec() != 0;
    }

    boolean isLogAppend() {
        return (attributes & LOG_APPEND) != 0;
    }

    boolean isTransactional() {
        return magic == 2 && (attributes & TRANSACTIONAL) != 0;
    }

    boolean isControl() {
        return magic == 2 && (attributes & CONTROL) != 0;
    }
}
