package tidelog.spark;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code format("tidelog")} of a session with this jar. Spark asks the jars on its class path before Python's registry.
 *
 * <p>Python plans, and this package reads. Writes, and the reads that only Python does, go to the Python source of the
 * same name. {@link ReaderChoice} has the rule.
 */
public final class TidelogSource implements TableProvider, DataSourceRegister {
    static final String NAME = "tidelog";

    private final PythonDataSourceV2 python = new PythonDataSourceV2();

    /** Create a source, as Java's service loader does. */
    public TidelogSource() {
        python.setShortName(NAME);
    }

    @Override
    public String shortName() {
        return NAME;
    }

    @Override
    public boolean supportsExternalMetadata() {
        return true; // a write brings its own schema; a read with one is refused when it is planned
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        ReaderChoice choice = ReaderChoice.of(options);
        return choice.isJvm() ? choice.schema() : python.inferSchema(options);
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
        return new LogTable(schema, python.getTable(schema, partitioning, options));
    }
}
