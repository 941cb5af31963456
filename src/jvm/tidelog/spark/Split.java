package tidelog.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.read.InputPartition;

/** The input of one task: pieces of partitions. */
final class Split implements InputPartition {
    private static final long serialVersionUID = 1L;

    final Piece[] pieces;

    /** A task without work. */
    Split() {
        pieces = new Piece[0];
    }

    Split(JsonNode json) {
        JsonNode listed = json.get("pieces");
        pieces = new Piece[listed.size()];
        for (int i = 0; i < pieces.length; i++) {
            pieces[i] = new Piece(listed.get(i));
        }
    }

    static Split[] all(JsonNode plan) {
        JsonNode tasks = plan.get("tasks");
        Split[] splits = new Split[tasks.size()];
        for (int i = 0; i < splits.length; i++) {
            splits[i] = new Split(tasks.get(i));
        }
        return splits;
    }
}
