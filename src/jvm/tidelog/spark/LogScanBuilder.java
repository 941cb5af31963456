package tidelog.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The query's needs: the columns that it reads, the filters that narrow the read, and its limit.
 *
 * <p>Spark evaluates all filters again on the rows, and takes the limit again.
 */
final class LogScanBuilder
        implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit {
    private final StructType table;
    private final CaseInsensitiveStringMap options;
    private final ArrayNode filters = Planner.JSON.createArrayNode();
    private final List<Predicate> pushed = new ArrayList<>();

    private StructType columns;
    private long limit = Long.MAX_VALUE;

    LogScanBuilder(StructType table, CaseInsensitiveStringMap options) {
        this.table = table;
        this.options = options;
        columns = table;
    }

    @Override
    public void pruneColumns(StructType required) {
        columns = required;
    }

    @Override
    public Predicate[] pushPredicates(Predicate[] predicates) {
        for (Predicate predicate : predicates) {
            if (Filters.add(predicate, filters)) {
                pushed.add(predicate);
            }
        }
        return predicates;
    }

    @Override
    public Predicate[] pushedPredicates() {
        return pushed.toArray(Predicate[]::new);
    }

    @Override
    public boolean pushLimit(int rows) {
        limit = rows;
        return true;
    }

    @Override
    public boolean isPartiallyPushed() {
        return true;
    }

    @Override
    public Scan build() {
        return new LogScan(table, columns, options, filters, limit);
    }
}
