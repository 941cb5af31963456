package tidelog.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The aggregates of a query that batch headers give, by topic, by partition, or over all.
 *
 * <p>These are the counts of records, and the extremes of offset and timestamp. A row has the groups' columns first, then
 * one column for each aggregate. Immutable, and serialized for the executors.
 */
final class HeaderAggregates implements Serializable {
    private static final long serialVersionUID = 1L;

    private enum Kind {
        COUNT(DataTypes.LongType),
        MIN_OFFSET(DataTypes.LongType),
        MAX_OFFSET(DataTypes.LongType),
        MIN_TIMESTAMP(DataTypes.TimestampType),
        MAX_TIMESTAMP(DataTypes.TimestampType);

        final DataType type;

        Kind(DataType type) {
            this.type = type;
        }
    }

    private final Kind[] kinds;
    private final String[] groups;
    private final StructType schema;

    private HeaderAggregates(List<Kind> kinds, List<String> groups, StructType schema) {
        this.kinds = kinds.toArray(Kind[]::new);
        this.groups = groups.toArray(String[]::new);
        this.schema = schema;
    }

    /** Return the aggregates, or null if headers do not give all of them. */
    static HeaderAggregates of(Aggregation wanted) {
        StructType schema = new StructType();
        List<String> groups = new ArrayList<>();
        for (Expression expression : wanted.groupByExpressions()) {
            String name = columnOf(expression);
            if (!name.equals("topic") && !name.equals("partition")) {
                return null;
            }
            groups.add(name);
            schema = schema.add(RecordTable.schema(List.of(name)).apply(0));
        }
        List<Kind> kinds = new ArrayList<>();
        for (AggregateFunc function : wanted.aggregateExpressions()) {
            Kind kind = kindOf(function);
            if (kind == null) {
                return null;
            }
            kinds.add(kind);
            schema = schema.add(function.toString(), kind.type, true);
        }
        return new HeaderAggregates(kinds, groups, schema);
    }

    private static Kind kindOf(AggregateFunc function) {
        if (function instanceof CountStar) {
            return Kind.COUNT;
        }
        if (function instanceof Count count) {
            return !count.isDistinct() && RecordTable.isNeverNull(columnOf(count.column())) ? Kind.COUNT : null;
        }
        boolean isMin = function instanceof Min;
        if (!isMin && !(function instanceof Max)) {
            return null;
        }
        return switch (columnOf(function.children()[0])) {
            case "offset" -> isMin ? Kind.MIN_OFFSET : Kind.MAX_OFFSET;
            case "timestamp" -> isMin ? Kind.MIN_TIMESTAMP : Kind.MAX_TIMESTAMP;
            default -> null;
        };
    }

    private static String columnOf(Expression expression) {
        return expression instanceof NamedReference column && column.fieldNames().length == 1
                ? column.fieldNames()[0] : "";
    }

    StructType schema() {
        return schema;
    }

    boolean areGrouped() {
        return groups.length > 0;
    }

    private boolean have(Kind kind) {
        return Arrays.asList(kinds).contains(kind);
    }

    /**
     * Return True if a batch's records must be read, because its header is not exact.
     *
     * <p>The header of a compacted batch has the offsets of records that the cleaner removed. Timestamps need not ascend,
     * and the header has only the greatest. A batch that lies in the piece in part has records of others. A wrapper's
     * header does not tell the number of its messages.
     */
    boolean needRecords(Piece piece, BatchHeader batch, Extremes before) {
        if (batch.isWrapper()) {
            return true;
        }
        if (batch.recordCount == 0) {
            return false;
        }
        boolean hasGaps = batch.lastOffset - batch.baseOffset >= batch.recordCount;
        if (!piece.holdsAllOf(batch)
                || (hasGaps && (have(Kind.MAX_OFFSET) || (have(Kind.MIN_OFFSET) && before.count == 0)))) {
            return true;
        }
        boolean hasOneTimestamp = batch.isLogAppend() || batch.recordCount == 1;
        boolean isBeyond = NumberColumn.Timestamps.isNull(batch.maxTimestamp);
        return (have(Kind.MIN_TIMESTAMP) && (isBeyond || !hasOneTimestamp)) || (have(Kind.MAX_TIMESTAMP) && isBeyond);
    }

    /** Return the row of a piece, or of a whole task if there are no groups. */
    InternalRow row(Piece piece, Extremes found) {
        Object[] values = new Object[groups.length + kinds.length];
        for (int i = 0; i < groups.length; i++) {
            values[i] = groups[i].equals("topic") ? UTF8String.fromString(piece.topic) : (Object) piece.partition;
        }
        for (int i = 0; i < kinds.length; i++) {
            values[groups.length + i] = switch (kinds[i]) {
                case COUNT -> (Object) found.count;
                case MIN_OFFSET -> found.count == 0 ? null : found.minOffset;
                case MAX_OFFSET -> found.count == 0 ? null : found.maxOffset;
                case MIN_TIMESTAMP -> found.hasTimestamp() ? found.minTimestamp * 1000 : null;
                case MAX_TIMESTAMP -> found.hasTimestamp() ? found.maxTimestamp * 1000 : null;
            };
        }
        return new GenericInternalRow(values);
    }

    @Override
    public String toString() {
        return String.join(", ", schema.fieldNames());
    }

    /** The number of records so far, and their extremes. Timestamps are in milliseconds. */
    static final class Extremes {
        long count;
        long minOffset = Long.MAX_VALUE;
        long maxOffset = Long.MIN_VALUE;
        long minTimestamp = Long.MAX_VALUE;
        long maxTimestamp = Long.MIN_VALUE;

        /** Add a batch whose header is exact. */
        void add(BatchHeader batch) {
            if (batch.recordCount > 0) {
                count += batch.recordCount;
                addOffsets(batch.baseOffset, batch.lastOffset);
                addTimestamps(batch.maxTimestamp, batch.maxTimestamp);
            }
        }

        void add(RecordColumns records) {
            count += records.rows;
            for (int i = 0; i < records.rows; i++) {
                addOffsets(records.offset[i], records.offset[i]);
                if (!NumberColumn.Timestamps.isNull(records.timestamp[i])) {
                    addTimestamps(records.timestamp[i], records.timestamp[i]);
                }
            }
        }

        void add(Extremes other) {
            count += other.count;
            addOffsets(other.minOffset, other.maxOffset);
            addTimestamps(other.minTimestamp, other.maxTimestamp);
        }

        private void addOffsets(long least, long most) {
            minOffset = Math.min(minOffset, least);
            maxOffset = Math.max(maxOffset, most);
        }

        private void addTimestamps(long least, long most) {
            minTimestamp = Math.min(minTimestamp, least);
            maxTimestamp = Math.max(maxTimestamp, most);
        }

        boolean hasTimestamp() {
            return minTimestamp <= maxTimestamp;
        }
    }
}
