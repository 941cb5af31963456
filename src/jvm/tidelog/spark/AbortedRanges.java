package tidelog.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;

/** Aborted transactions, sorted by producer, then by first offset. A producer's ranges do not overlap. */
final class AbortedRanges implements Serializable {
    private static final long serialVersionUID = 1L;

    private final long[] producerIds;
    private final long[] firstOffsets;
    private final long[] lastOffsets;

    AbortedRanges(JsonNode json) {
        producerIds = Piece.longs(json.get("producerIds"));
        firstOffsets = Piece.longs(json.get("firstOffsets"));
        lastOffsets = Piece.longs(json.get("lastOffsets"));
    }

    /** Return True if the batch's records belong to an aborted transaction. Markers do not. */
    boolean contain(BatchHeader batch) {
        if (!batch.isTransactional() || batch.isControl()) {
            return false;
        }
        // Only the last range that begins at or before the batch can contain it.
        int low = 0;
        int high = producerIds.length;
        while (low < high) {
            int middle = (low + high) >>> 1;
            boolean isBefore = producerIds[middle] < batch.producerId
                    || (producerIds[middle] == batch.producerId && firstOffsets[middle] <= batch.baseOffset);
            if (isBefore) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low > 0 && producerIds[low - 1] == batch.producerId && batch.baseOffset <= lastOffsets[low - 1];
    }
}
