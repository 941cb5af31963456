package tidelog.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataTypes;

/**
 * The filters that narrow a read, as the planner takes them: a kind, a column, and a value or a list of values.
 *
 * <p>The kinds have the names of PySpark's filters. A timestamp is in microseconds. A filter with a null is left out.
 */
final class Filters {
    private static final Map<String, String> KINDS = Map.of(
            "=", "EqualTo", "<=>", "EqualNullSafe", "<", "LessThan", "<=", "LessThanOrEqual", ">", "GreaterThan", ">=",
            "GreaterThanOrEqual", "IN", "In");
    private static final Map<String, String> TURNED = Map.of(
            "=", "=", "<=>", "<=>", "<", ">", "<=", ">=", ">", "<", ">=", "<=");
    private static final Set<String> COLUMNS = Set.of("topic", "partition", "offset", "timestamp");

    private static final Set<String> NAMES = Set.of("topic", "partition");

    private Filters() {}

    /** Return True if the planner's tasks have the records that a predicate keeps, and no others. */
    static boolean isExact(Predicate predicate) {
        Expression[] children = predicate.children();
        String kind = predicate.name();
        if (kind.equals("AND")) {
            return isExact((Predicate) children[0]) && isExact((Predicate) children[1]);
        }
        if (kind.equals("IS_NOT_NULL")) {
            return children[0] instanceof NamedReference column && RecordTable.isNeverNull(column.fieldNames()[0]);
        }
        ArrayNode narrowing = Planner.JSON.createArrayNode();
        if (!add(predicate, narrowing)) {
            return false;
        }
        String column = narrowing.get(0).get("column").asText();
        boolean isEquality = kind.equals("=") || kind.equals("<=>");
        return NAMES.contains(column) ? isEquality || kind.equals("IN") : column.equals("offset") && !kind.equals("IN");
    }

    /** Add a predicate if it narrows a read. */
    static boolean add(Predicate predicate, ArrayNode filters) {
        Expression[] children = predicate.children();
        String name = predicate.name();
        if (name.equals("AND")) {
            boolean left = add((Predicate) children[0], filters);
            return add((Predicate) children[1], filters) || left;
        }
        if (children.length == 2 && children[1] instanceof NamedReference && TURNED.containsKey(name)) {
            name = TURNED.get(name);
            children = new Expression[] {children[1], children[0]};
        }
        if (!KINDS.containsKey(name) || children.length < 2 || !(children[0] instanceof NamedReference column)) {
            return false;
        }
        String[] path = column.fieldNames();
        if (path.length != 1 || !COLUMNS.contains(path[0])) {
            return false;
        }
        ObjectNode filter = Planner.JSON.createObjectNode().put("kind", KINDS.get(name)).put("column", path[0]);
        ArrayNode values = Planner.JSON.createArrayNode();
        for (int i = 1; i < children.length; i++) {
            if (!addValue(children[i], path[0], values)) {
                return false;
            }
        }
        filters.add(filter.set("value", name.equals("IN") ? values : values.get(0)));
        return true;
    }

    private static boolean addValue(Expression expression, String column, ArrayNode values) {
        if (!(expression instanceof Literal<?> literal) || literal.value() == null) {
            return false;
        }
        if (column.equals("timestamp") && !literal.dataType().equals(DataTypes.TimestampType)) {
            return false;
        }
        if (column.equals("topic")) {
            values.add(literal.value().toString());
            return true;
        }
        if (literal.value() instanceof Long || literal.value() instanceof Integer) {
            values.add(((Number) literal.value()).longValue());
            return true;
        }
        return false;
    }
}
