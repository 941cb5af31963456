package tidelog.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The query's needs: the columns that it reads, the filters that narrow the read, its limit, and its aggregates.
 *
 * <p>Spark takes the limit again, and evaluates the filters again that may leave other rows. Aggregates are taken only if
 * no filter is left. A read that checks or reports damage gives its rows to Spark, with all filters.
 */
final class LogScanBuilder
        implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit,
                SupportsPushDownAggregates {
    private final CaseInsensitiveStringMap options;
    private final boolean trustsHeaders;
    private final ArrayNode filters = Planner.JSON.createArrayNode();
    private final List<Predicate> pushed = new ArrayList<>();

    private StructType columns;
    private long limit = Long.MAX_VALUE;
    private HeaderAggregates aggregates;

    LogScanBuilder(StructType table, CaseInsensitiveStringMap options, boolean trustsHeaders) {
        this.options = options;
        this.trustsHeaders = trustsHeaders;
        columns = table;
    }

    @Override
    public void pruneColumns(StructType required) {
        columns = required;
    }

    @Override
    public Predicate[] pushPredicates(Predicate[] predicates) {
        List<Predicate> left = new ArrayList<>();
        for (Predicate predicate : predicates) {
            if (Filters.add(predicate, filters)) {
                pushed.add(predicate);
            }
            if (!trustsHeaders || !Filters.isExact(predicate)) {
                left.add(predicate);
            }
        }
        return left.toArray(Predicate[]::new);
    }

    @Override
    public Predicate[] pushedPredicates() {
        return pushed.toArray(Predicate[]::new);
    }

    @Override
    public boolean pushAggregation(Aggregation wanted) {
        aggregates = trustsHeaders ? HeaderAggregates.of(wanted) : null;
        return aggregates != null;
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
        return new LogScan(columns, options, filters, limit, aggregates);
    }
}
