package tidelog.spark;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** The columns of the records table: their types, and the vectors over a piece's decoded records. */
final class RecordTable {
    private static final Map<String, DataType> TYPES = Map.ofEntries(
            Map.entry("key", DataTypes.BinaryType),
            Map.entry("value", DataTypes.BinaryType),
            Map.entry("topic", DataTypes.StringType),
            Map.entry("partition", DataTypes.IntegerType),
            Map.entry("offset", DataTypes.LongType),
            Map.entry("timestamp", DataTypes.TimestampType),
            Map.entry("timestampType", DataTypes.IntegerType),
            Map.entry("headers", HeadersColumn.TYPE),
            Map.entry("batchBaseOffset", DataTypes.LongType),
            Map.entry("leaderEpoch", DataTypes.IntegerType),
            Map.entry("producerId", DataTypes.LongType),
            Map.entry("producerEpoch", DataTypes.IntegerType),
            Map.entry("baseSequence", DataTypes.IntegerType),
            Map.entry("isTransactional", DataTypes.BooleanType),
            Map.entry("isControl", DataTypes.BooleanType),
            Map.entry("compression", DataTypes.StringType),
            Map.entry("corrupt", DataTypes.StringType));

    private static final Set<String> NUMBERS = Set.of("offset", "timestamp", "timestampType");
    private static final Set<String> CONSTANTS = Set.of("topic", "partition", "corrupt");

    private final StructType schema;
    private final Piece piece;
    private final RecordColumns records;
    private final ColumnVector[] vectors;

    RecordTable(StructType schema, Piece piece) {
        this.schema = schema;
        this.piece = piece;
        List<String> names = List.of(schema.fieldNames());
        boolean numbers = names.stream().anyMatch(NUMBERS::contains);
        boolean batches = names.stream().anyMatch(RecordTable::isOfBatch);
        records = new RecordColumns(
                numbers, names.contains("key"), names.contains("value"), names.contains("headers"), batches);
        vectors = names.stream().map(this::vector).toArray(ColumnVector[]::new);
    }

    static StructType schema(Iterable<String> names) {
        StructType schema = new StructType();
        for (String name : names) {
            schema = schema.add(name, TYPES.get(name), true);
        }
        return schema;
    }

    /** Return True for a column that every record fills. Its rows about damage may be null. */
    static boolean isNeverNull(String name) {
        return TYPES.containsKey(name) && !Set.of("key", "value", "timestamp", "headers", "corrupt").contains(name);
    }

    private static boolean isOfBatch(String name) {
        return !NUMBERS.contains(name) && !CONSTANTS.contains(name) && !Set.of("key", "value", "headers").contains(name);
    }

    private ColumnVector vector(String name) {
        return switch (name) {
            case "key", "value" -> new BytesColumn();
            case "headers" -> new HeadersColumn();
            case "offset" -> new NumberColumn.Offsets();
            case "timestamp" -> new NumberColumn.Timestamps();
            case "timestampType" -> new NumberColumn.TimestampTypes();
            case "topic" -> new ConstantColumn(DataTypes.StringType).set(piece.topic);
            case "partition" -> new ConstantColumn(DataTypes.IntegerType).set(piece.partition);
            case "corrupt" -> new ConstantColumn(DataTypes.StringType);
            default -> new NumberColumn.BatchField(name, TYPES.get(name), records);
        };
    }

    RecordColumns records() {
        return records;
    }

    /** Return the decoded records as Spark's batch. It is valid until the next records are decoded. */
    ColumnarBatch batch() {
        String[] names = schema.fieldNames();
        for (int i = 0; i < vectors.length; i++) {
            switch (names[i]) {
                case "key" -> ((BytesColumn) vectors[i]).set(records.source, records.keyStart, records.keyLength);
                case "value" ->
                    ((BytesColumn) vectors[i]).set(records.source, records.valueStart, records.valueLength);
                case "headers" -> ((HeadersColumn) vectors[i]).set(records);
                case "offset" -> ((NumberColumn.Offsets) vectors[i]).set(records.offset);
                case "timestamp" -> ((NumberColumn.Timestamps) vectors[i]).set(records.timestamp);
                case "timestampType" -> ((NumberColumn.TimestampTypes) vectors[i]).set(records.timestampType);
                default -> { }
            }
        }
        return new ColumnarBatch(vectors, records.rows);
    }

    /** Return a row about damage: the topic, the partition, the first offset that may be missing, and a sentence. */
    ColumnarBatch damage(Damage.Row row) {
        ColumnVector[] columns = new ColumnVector[vectors.length];
        String[] names = schema.fieldNames();
        for (int i = 0; i < columns.length; i++) {
            ConstantColumn column = new ConstantColumn(TYPES.get(names[i]));
            columns[i] = switch (names[i]) {
                case "topic" -> column.set(piece.topic);
                case "partition" -> column.set(piece.partition);
                case "offset" -> column.set(row.offset());
                case "corrupt" -> column.set(row.sentence());
                default -> column;
            };
        }
        return new ColumnarBatch(columns, 1);
    }
}
