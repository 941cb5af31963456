package tidelog.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A run of a streaming query. The planner decides each batch's end and its tasks, as for the Python reader's streams.
 *
 * <p>A position is the JSON of Spark's Kafka source, and equal to the Python reader's text. So a checkpoint goes on
 * with either reader. The planner's side of the stream is opened at the first call, and closed by {@link #stop}.
 *
 * <p>Thread rule: the query's thread, except that {@link #stop} may come from another.
 */
final class RecordStream implements MicroBatchStream, SupportsTriggerAvailableNow {
    private final StructType columns;
    private final CaseInsensitiveStringMap options;

    private Planner planner;
    private JsonNode opened;
    private RecordOffset latest;

    RecordStream(StructType columns, CaseInsensitiveStringMap options) {
        this.columns = columns;
        this.options = options;
        open();
    }

    private synchronized void open() {
        planner = Planner.running();
        opened = planner.ask(Planner.request("stream_open")
                .set("options", Planner.optionsOf(options.asCaseSensitiveMap())));
    }

    private ObjectNode request(String name) {
        return Planner.request(name).put("stream", opened.get("stream").asLong());
    }

    @Override
    public Offset initialOffset() {
        return new RecordOffset(planner.ask(request("stream_initial")).asText());
    }

    @Override
    public ReadLimit getDefaultReadLimit() {
        JsonNode most = opened.get("maxOffsets");
        if (!most.isNull()) {
            return ReadLimit.maxRows(most.asLong());
        }
        JsonNode least = opened.get("minOffsets");
        return least.isNull()
                ? ReadLimit.allAvailable()
                : ReadLimit.minRows(least.asLong(), opened.get("maxDelayMs").asLong());
    }

    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
        JsonNode found = planner.ask(request("stream_end")
                .put("start", start.json())
                .put("isLimited", !(limit instanceof ReadAllAvailable)));
        latest = new RecordOffset(found.get("latest").asText());
        return new RecordOffset(found.get("end").asText());
    }

    @Override
    public Offset latestOffset() {
        throw new UnsupportedOperationException("a stream's end is asked for with its start");
    }

    /** Return the offsets available at the last trigger. Compared with a batch's end, they give the query's lag. */
    @Override
    public Offset reportLatestOffset() {
        return latest;
    }

    @Override
    public void prepareForTriggerAvailableNow() {
        planner.ask(request("stream_stop_at_present"));
    }

    @Override
    public Offset deserializeOffset(String json) {
        return new RecordOffset(json);
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        return Split.all(planner.ask(request("stream_plan").put("start", start.json()).put("end", end.json())));
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new ReaderFactory(ReadSettings.ofSession(opened.get("settings")), columns, Long.MAX_VALUE);
    }

    @Override
    public void commit(Offset end) {}

    @Override
    public void stop() {
        planner.close(request("stream_close"));
    }
}
