package tidelog.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** One read of a table. The planner is asked once, when Spark wants the tasks. */
final class LogScan implements Scan, Batch {
    private final StructType columns;
    private final CaseInsensitiveStringMap options;
    private final ArrayNode filters;
    private final long limit;
    private final HeaderAggregates aggregates;

    private JsonNode plan;

    /** {@code aggregates} is null if the scan returns records. */
    LogScan(
            StructType columns, CaseInsensitiveStringMap options, ArrayNode filters, long limit,
            HeaderAggregates aggregates) {
        this.columns = columns;
        this.options = options;
        this.filters = filters;
        this.limit = limit;
        this.aggregates = aggregates;
    }

    @Override
    public StructType readSchema() {
        return aggregates == null ? columns : aggregates.schema();
    }

    @Override
    public String description() {
        return "tidelog " + (aggregates == null ? columns.catalogString() : "of batch headers: " + aggregates)
                + " filters " + filters + (limit == Long.MAX_VALUE ? "" : " limit " + limit);
    }

    @Override
    public Batch toBatch() {
        return this;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
        return new RecordStream(columns, options);
    }

    private synchronized JsonNode plan() {
        if (plan == null) {
            ObjectNode request = Planner.request("plan");
            request.set("options", Planner.optionsOf(options.asCaseSensitiveMap()));
            request.set("filters", filters);
            plan = Planner.running().ask(request);
        }
        return plan;
    }

    @Override
    public InputPartition[] planInputPartitions() {
        Split[] splits = Split.all(plan());
        // Spark adds the counts of all tasks, and the sum of none would be null.
        boolean isCountOfNone = aggregates != null && !aggregates.areGrouped() && splits.length == 0;
        return isCountOfNone ? new Split[] {new Split()} : splits;
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        ReadSettings settings = ReadSettings.ofSession(plan().get("settings"));
        return aggregates == null
                ? new ReaderFactory(settings, columns, limit)
                : new AggregateReader.Factory(settings, aggregates);
    }
}
