package tidelog.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;

/** The options of a read that its tasks need, as the planner parsed them. Immutable. */
final class ReadSettings implements Serializable {
    private static final long serialVersionUID = 1L;

    final boolean verifyChecksums;
    final boolean skipsDamage;
    final boolean reportsDamage;
    final boolean failOnDataLoss;
    final boolean controlRecords;

    /** Batches without a record at or after it are left out. */
    final long minTimestampMs;

    /** The file systems of the directories that are addresses, or null if there are none. */
    final HadoopFiles hadoop;

    /** Return the settings of a read of the running session, which has the file systems. Called in the driver. */
    static ReadSettings ofSession(JsonNode json) {
        return new ReadSettings(json, json.get("readsAddresses").asBoolean() ? HadoopFiles.ofSession() : null);
    }

    ReadSettings(JsonNode json, HadoopFiles hadoop) {
        verifyChecksums = json.get("verifyChecksums").asBoolean();
        String onCorrupt = json.get("onCorrupt").asText();
        skipsDamage = !onCorrupt.equals("fail");
        reportsDamage = onCorrupt.equals("report");
        failOnDataLoss = json.get("failOnDataLoss").asBoolean();
        controlRecords = json.get("includeControlRecords").asBoolean();
        JsonNode least = json.get("minTimestampMs");
        minTimestampMs = least.isNull() ? Long.MIN_VALUE : least.asLong();
        this.hadoop = hadoop;
    }
}
