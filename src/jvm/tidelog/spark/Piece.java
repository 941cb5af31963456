package tidelog.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.Arrays;

/**
 * The offsets {@code [start, end)} of one partition, as the planner wrote them: docs/spark-jvm.md has every field.
 *
 * <p>Immutable, and serialized for the executors.
 */
final class Piece implements Serializable {
    private static final long serialVersionUID = 1L;

    final String topic;
    final int partition;
    final String directory;
    final long start;
    final long end;
    final boolean leads;
    final boolean held;
    final long logEnd;
    final long position;
    final Segment[] segments;
    final AbortedRanges aborted;
    final Tail tail;

    Piece(JsonNode json) {
        topic = json.get("topic").asText();
        partition = json.get("partition").asInt();
        directory = json.get("directory").asText();
        start = json.get("start").asLong();
        end = json.get("end").asLong();
        leads = json.get("leads").asBoolean();
        held = json.get("held").asBoolean();
        logEnd = json.get("logEnd").asLong();
        position = json.get("position").asLong();
        JsonNode listed = json.get("segments");
        segments = new Segment[listed.size()];
        for (int i = 0; i < segments.length; i++) {
            segments[i] = new Segment(listed.get(i));
        }
        JsonNode ranges = json.get("aborted");
        aborted = ranges.isNull() ? null : new AbortedRanges(ranges);
        JsonNode invalid = json.get("tail");
        tail = invalid.isNull() ? null : new Tail(invalid);
    }

    /** Return True if all offsets of a batch are the piece's. */
    boolean holdsAllOf(BatchHeader batch) {
        return batch.baseOffset >= start && batch.lastOffset < end;
    }

    static long[] longs(JsonNode list) {
        long[] values = new long[list.size()];
        Arrays.setAll(values, i -> list.get(i).asLong());
        return values;
    }

    /**
     * A {@code .log}, the offset below which its batches end, and the byte where reading ends: -1 is the file's
     * end.
     */
    static final class Segment implements Serializable {
        private static final long serialVersionUID = 1L;

        final String file;
        final long baseOffset;
        final long endOffset;
        final long endPosition;

        Segment(String file, long baseOffset, long endOffset, long endPosition) {
            this.file = file;
            this.baseOffset = baseOffset;
            this.endOffset = endOffset;
            this.endPosition = endPosition;
        }

        Segment(JsonNode json) {
            this(json.get("file").asText(), json.get("baseOffset").asLong(), json.get("endOffset").asLong(),
                    json.get("endPosition").isNull() ? -1 : json.get("endPosition").asLong());
        }
    }

    /** The bytes after the log end that are no valid batch. */
    static final class Tail implements Serializable {
        private static final long serialVersionUID = 1L;

        final String file;
        final long position;
        final long length;
        final String reason;

        Tail(JsonNode json) {
            file = json.get("file").asText();
            position = json.get("position").asLong();
            length = json.get("length").asLong();
            reason = json.get("reason").asText();
        }
    }
}
