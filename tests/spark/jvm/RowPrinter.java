package tidelog.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.stream.StreamSupport;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.types.StructType;

/**
 * A program for tests: it reads one task a line of stdin, without Spark, and prints each row as a line of JSON.
 *
 * <p>A request with {@code aggregates} gets partial aggregates by its {@code groups}.
 */
public final class RowPrinter {
    private static final ObjectMapper JSON = new ObjectMapper();

    private RowPrinter() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode request = JSON.readTree(line);
            try {
                print(request, out);
                out.println("[\"done\"]");
            } catch (Throwable error) {
                ArrayNode failure = JSON.createArrayNode().add("failed").add(error.getClass().getSimpleName());
                out.println(failure.add(error.getMessage()));
                if (!(error instanceof TidelogException)) {
                    error.printStackTrace();
                }
            }
            out.flush();
        }
    }

    private static void print(JsonNode request, PrintStream out) throws Exception {
        if (request.has("aggregates")) {
            printAggregates(request, out);
            return;
        }
        StructType schema = new StructType();
        for (JsonNode name : request.get("columns")) {
            String text = name.asText();
            schema = schema.add(RecordTable.schema(java.util.List.of(text)).apply(0));
        }
        ReadSettings settings = settings(request);
        long limit = request.get("limit").asLong();
        try (RecordReader reader = new RecordReader(new Split(request.get("task")), settings, schema, limit)) {
            while (reader.next()) {
                Iterator<InternalRow> rows = reader.get().rowIterator();
                while (rows.hasNext()) {
                    out.println(object(rows.next(), schema));
                }
            }
        }
    }

    private static ReadSettings settings(JsonNode request) {
        return new ReadSettings(request.get("settings"), new HadoopFiles(new Configuration()));
    }

    private static void printAggregates(JsonNode request, PrintStream out) throws Exception {
        AggregateFunc[] functions = StreamSupport.stream(request.get("aggregates").spliterator(), false)
                .map(name -> function(name.asText())).toArray(AggregateFunc[]::new);
        Expression[] groups = StreamSupport.stream(request.get("groups").spliterator(), false)
                .map(name -> FieldReference.apply(name.asText())).toArray(Expression[]::new);
        HeaderAggregates aggregates = HeaderAggregates.of(new Aggregation(functions, groups));
        ReadSettings settings = settings(request);
        try (AggregateReader reader = new AggregateReader(new Split(request.get("task")), settings, aggregates)) {
            while (reader.next()) {
                out.println(object(reader.get(), aggregates.schema()));
            }
        }
    }

    private static AggregateFunc function(String name) {
        if (name.equals("COUNT(*)")) {
            return new CountStar();
        }
        int bracket = name.indexOf('(');
        Expression column = FieldReference.apply(name.substring(bracket + 1, name.length() - 1));
        return switch (name.substring(0, bracket)) {
            case "COUNT" -> new Count(column, false);
            case "MIN" -> new Min(column);
            default -> new Max(column);
        };
    }

    private static ObjectNode object(InternalRow row, StructType schema) {
        ObjectNode made = JSON.createObjectNode();
        String[] names = schema.fieldNames();
        for (int i = 0; i < names.length; i++) {
            if (row.isNullAt(i)) {
                made.putNull(names[i]);
                continue;
            }
            switch (schema.apply(i).dataType().simpleString()) {
                case "binary" -> made.put(names[i], HexFormat.of().formatHex(row.getBinary(i)));
                case "string" -> made.put(names[i], row.getUTF8String(i).toString());
                case "int" -> made.put(names[i], row.getInt(i));
                case "boolean" -> made.put(names[i], row.getBoolean(i));
                case "bigint", "timestamp" -> made.put(names[i], row.getLong(i));
                default -> made.set(names[i], headers(row.getArray(i)));
            }
        }
        return made;
    }

    private static ArrayNode headers(ArrayData list) {
        ArrayNode made = JSON.createArrayNode();
        for (int i = 0; i < list.numElements(); i++) {
            InternalRow header = list.getStruct(i, 2);
            ObjectNode one = made.addObject().put("key", header.getUTF8String(0).toString());
            one.put("value", header.isNullAt(1) ? null : HexFormat.of().formatHex(header.getBinary(1)));
        }
        return made;
    }
}
