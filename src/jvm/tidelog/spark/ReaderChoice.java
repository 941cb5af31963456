package tidelog.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The reader of a table: this package's, or Python's.
 *
 * <p>The option {@code reader} decides, then the session's setting {@code spark.tidelog.reader}. With {@code auto}, and
 * with the setting, Python reads the tables that this package does not have.
 */
final class ReaderChoice {
    private static final String OPTION = "reader";
    private static final String SETTING = "spark.tidelog.reader";
    private static final String AUTO = "auto";
    private static final String JVM = "jvm";
    private static final String PYTHON = "python";

    private final StructType schema;
    private final boolean trustsHeaders;

    private ReaderChoice(StructType schema, boolean trustsHeaders) {
        this.schema = schema;
        this.trustsHeaders = trustsHeaders;
    }

    /** Choose by a table's options. Throw TidelogException for invalid ones. */
    static ReaderChoice of(CaseInsensitiveStringMap options) {
        String given = options.get(OPTION);
        String asked = checked(given == null ? SQLConf.get().getConfString(SETTING, AUTO) : given, given == null);
        if (asked.equals(PYTHON)) {
            return new ReaderChoice(null, false);
        }
        JsonNode table = Planner.running().ask(Planner.request("table")
                .set("options", Planner.optionsOf(options.asCaseSensitiveMap())));
        String reason = reasonForPython(table);
        if (reason == null) {
            List<String> names = new ArrayList<>();
            table.get("columns").forEach(name -> names.add(name.asText()));
            return new ReaderChoice(RecordTable.schema(names), table.get("trustsHeaders").asBoolean());
        }
        if (JVM.equals(asked) && given != null) {
            throw new TidelogException("Option 'reader' can't be jvm: only the Python reader reads " + reason);
        }
        return new ReaderChoice(null, false);
    }

    /** Return the part of a table that only Python reads, or null. */
    private static String reasonForPython(JsonNode table) {
        if (!table.get("onlyPython").isNull()) {
            return table.get("onlyPython").asText();
        }
        for (JsonNode address : table.get("addresses")) {
            String obstacle = HadoopFiles.ofSession().obstacle(address.asText());
            if (obstacle != null) {
                return address.asText() + " (the session has no file system of Hadoop for it: " + obstacle + ")";
            }
        }
        return null;
    }

    private static String checked(String text, boolean isSetting) {
        String reader = text.trim().toLowerCase(Locale.ROOT);
        if (List.of(AUTO, JVM, PYTHON).contains(reader)) {
            return reader;
        }
        throw new TidelogException((isSetting ? "The setting '" + SETTING : "Option '" + OPTION)
                + "' must be one of auto, jvm, python; got '" + text + "'");
    }

    boolean isJvm() {
        return schema != null;
    }

    /** Return True if batch headers may give a query's result without a check of CRCs. */
    boolean trustsHeaders() {
        return trustsHeaders;
    }

    StructType schema() {
        return schema;
    }

    /** Throw TidelogException for another schema than the table's: Spark passes a schema that a user declares. */
    void refuseOther(StructType given) {
        if (!given.catalogString().equals(schema.catalogString())) {
            throw new TidelogException("format tidelog has a fixed schema, which its options decide: "
                    + schema.catalogString() + "; it can't be read as " + given.catalogString());
        }
    }
}
