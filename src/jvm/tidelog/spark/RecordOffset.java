package tidelog.spark;

import org.apache.spark.sql.connector.read.streaming.Offset;

/** A stream's position, as the text that the planner writes for it. Spark compares offsets as texts. */
final class RecordOffset extends Offset {
    private final String text;

    RecordOffset(String text) {
        this.text = text;
    }

    @Override
    public String json() {
        return text;
    }
}
