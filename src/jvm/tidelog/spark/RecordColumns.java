package tidelog.spark;

import java.util.Arrays;

/**
 * Decoded records: numbers, and the places of keys, values and headers in {@link #source}.
 *
 * <p>A length below 0 is null. Fields of a batch are kept once for each batch. A column that is not wanted stays empty.
 */
final class RecordColumns {
    final boolean hasNumbers;
    final boolean hasKeys;
    final boolean hasValues;
    final boolean hasHeaders;
    final boolean hasBatches;

    byte[] source;
    int rows;
    long[] offset = new long[0];
    long[] timestamp = new long[0];
    byte[] timestampType = new byte[0];
    int[] keyStart = new int[0];
    int[] keyLength = new int[0];
    int[] valueStart = new int[0];
    int[] valueLength = new int[0];
    int[] headersEnd = new int[0];
    int[] batchNumber = new int[0];

    int headers;
    int[] headerKeyStart = new int[0];
    int[] headerKeyLength = new int[0];
    int[] headerValueStart = new int[0];
    int[] headerValueLength = new int[0];

    int batches;
    long[] baseOffset = new long[0];
    long[] producerId = new long[0];
    int[] leaderEpoch = new int[0];
    int[] producerEpoch = new int[0];
    int[] baseSequence = new int[0];
    boolean[] isTransactional = new boolean[0];
    boolean[] isControl = new boolean[0];
    int[] codec = new int[0];

    RecordColumns(boolean numbers, boolean keys, boolean values, boolean headers, boolean batches) {
        hasNumbers = numbers;
        hasKeys = keys;
        hasValues = values;
        hasHeaders = headers;
        hasBatches = batches;
    }

    /** Return True if no column needs a record's own bytes, so that a complete batch need not be opened. */
    boolean needNoRecords() {
        return !hasNumbers && !hasKeys && !hasValues && !hasHeaders;
    }

    void clear() {
        rows = headers = batches = 0;
    }

    /** Make room for so many rows more. */
    void reserve(int more) {
        int needed = rows + more;
        if (hasNumbers && needed > offset.length) {
            int size = grown(needed, offset.length);
            offset = Arrays.copyOf(offset, size);
            timestamp = Arrays.copyOf(timestamp, size);
            timestampType = Arrays.copyOf(timestampType, size);
        }
        if (hasKeys && needed > keyStart.length) {
            int size = grown(needed, keyStart.length);
            keyStart = Arrays.copyOf(keyStart, size);
            keyLength = Arrays.copyOf(keyLength, size);
        }
        if (hasValues && needed > valueStart.length) {
            int size = grown(needed, valueStart.length);
            valueStart = Arrays.copyOf(valueStart, size);
            valueLength = Arrays.copyOf(valueLength, size);
        }
        if (hasHeaders && needed > headersEnd.length) {
            headersEnd = Arrays.copyOf(headersEnd, grown(needed, headersEnd.length));
        }
        if (hasBatches && needed > batchNumber.length) {
            batchNumber = Arrays.copyOf(batchNumber, grown(needed, batchNumber.length));
        }
    }

    private static int grown(int needed, int current) {
        return (int) Math.min(Integer.MAX_VALUE - 8, Math.max(needed, Math.max(1024L, 2L * current)));
    }

    void addHeader(int keyAt, int keyBytes, int valueAt, int valueBytes) {
        if (headers == headerKeyStart.length) {
            int size = grown(headers + 1, headers);
            headerKeyStart = Arrays.copyOf(headerKeyStart, size);
            headerKeyLength = Arrays.copyOf(headerKeyLength, size);
            headerValueStart = Arrays.copyOf(headerValueStart, size);
            headerValueLength = Arrays.copyOf(headerValueLength, size);
        }
        headerKeyStart[headers] = keyAt;
        headerKeyLength[headers] = keyBytes;
        headerValueStart[headers] = valueAt;
        headerValueLength[headers] = valueBytes;
        headers++;
    }

    /** Note the fields of the batch that the rows from {@code first} on belong to. */
    void endBatch(BatchHeader batch, int first) {
        if (!hasBatches || rows == first) {
            return;
        }
        if (batches == baseOffset.length) {
            int size = grown(batches + 1, batches);
            baseOffset = Arrays.copyOf(baseOffset, size);
            producerId = Arrays.copyOf(producerId, size);
            leaderEpoch = Arrays.copyOf(leaderEpoch, size);
            producerEpoch = Arrays.copyOf(producerEpoch, size);
            baseSequence = Arrays.copyOf(baseSequence, size);
            isTransactional = Arrays.copyOf(isTransactional, size);
            isControl = Arrays.copyOf(isControl, size);
            codec = Arrays.copyOf(codec, size);
        }
        baseOffset[batches] = batch.baseOffset;
        producerId[batches] = batch.producerId;
        leaderEpoch[batches] = batch.leaderEpoch;
        producerEpoch[batches] = batch.producerEpoch;
        baseSequence[batches] = batch.baseSequence;
        isTransactional[batches] = batch.isTransactional();
        isControl[batches] = batch.isControl();
        codec[batches] = batch.codec();
        Arrays.fill(batchNumber, first, rows, batches);
        batches++;
    }
}
