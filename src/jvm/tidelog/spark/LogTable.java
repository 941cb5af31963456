package tidelog.spark;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table of {@code format("tidelog")}. Spark makes one before it says whether it reads or writes.
 *
 * <p>So its options are looked at when a read begins. A write goes to the Python source's table.
 */
final class LogTable implements SupportsRead, SupportsWrite {
    private final StructType schema;
    private final Table python;

    LogTable(StructType schema, Table python) {
        this.schema = schema;
        this.python = python;
    }

    @Override
    public String name() {
        return TidelogSource.NAME;
    }

    @Override
    @SuppressWarnings("deprecation") // columns() has it as its default
    public StructType schema() {
        return schema;
    }

    @Override
    public Set<TableCapability> capabilities() {
        return python.capabilities();
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        ReaderChoice choice = ReaderChoice.of(options);
        if (!choice.isJvm()) {
            return ((SupportsRead) python).newScanBuilder(options);
        }
        choice.refuseOther(schema);
        return new LogScanBuilder(schema, options, choice.trustsHeaders());
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return ((SupportsWrite) python).newWriteBuilder(info);
    }
}
