package tidelog.spark;

import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;

/**
 * The choice of the planner's interpreter: the driver's, because the planner runs in the driver.
 *
 * <p>The first of these counts: {@code spark.pyspark.driver.python}, {@code PYSPARK_DRIVER_PYTHON}, {@code
 * spark.pyspark.python}, {@code PYSPARK_PYTHON}, and {@code python3} of the path. A program that is no interpreter,
 * like a notebook's, is passed over.
 */
final class Interpreter {
    private static final String DEFAULT = "python3";

    private Interpreter() {}

    static String chosen() {
        SparkEnv spark = SparkEnv.get();
        SparkConf settings = spark == null ? new SparkConf(false) : spark.conf();
        return chosen(settings, System.getenv());
    }

    static String chosen(SparkConf settings, Map<String, String> environment) {
        return Stream.of(
                        settings.get("spark.pyspark.driver.python", ""),
                        environment.getOrDefault("PYSPARK_DRIVER_PYTHON", ""),
                        settings.get("spark.pyspark.python", ""),
                        environment.getOrDefault("PYSPARK_PYTHON", ""))
                .map(String::trim)
                .filter(Interpreter::isInterpreter)
                .findFirst()
                .orElse(DEFAULT);
    }

    private static boolean isInterpreter(String program) {
        String name = Optional.of(program).map(text -> text.substring(text.lastIndexOf('/') + 1)).orElse("");
        return name.startsWith("python") || name.startsWith("pypy");
    }
}
