import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * Kafka's side of the benchmarks: one warm JVM that does a piece of work for each line on stdin. A line is the work's
 * name and its arguments, separated by tabs; the response is "nanoseconds TAB bytes TAB records", or "error TAB text".
 * The driver runs it in turn with tidelog's side, which speaks the same lines. Responses go to the file descriptor that
 * is the argument, because Kafka's code may write to stdout.
 */
public final class Peer {
    private static final Map<String, Work> WORKS = new HashMap<>();

    private Peer() {
    }

    /** One kind of work: its preparation, the timed part, and the steps after it. */
    interface Work {
        default void prepare(String[] arguments) throws Exception {
        }

        Done run(String[] arguments) throws Exception;

        default void finish(String[] arguments) throws Exception {
        }
    }

    /** How much was done. */
    record Done(long bytes, long records) {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream("/dev/fd/" + arguments[0]));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            try {
                answers.println(time(work(words[0]), Arrays.copyOfRange(words, 1, words.length)));
            } catch (Throwable error) {
                error.printStackTrace();
                answers.println("error\t" + error);
            }
            answers.flush();
        }
        System.exit(0);
    }

    /** {@code ScanWork} for "scan", found by its name: a JVM has Kafka's tools or its newest broker, and the works of either. */
    private static Work work(String name) throws ReflectiveOperationException {
        Work work = WORKS.get(name);
        if (work == null) {
            String className = name.substring(0, 1).toUpperCase() + name.substring(1) + "Work";
            work = (Work) Class.forName(className).getDeclaredConstructor().newInstance();
            WORKS.put(name, work);
        }
        return work;
    }

    private static String time(Work work, String[] arguments) throws Exception {
        work.prepare(arguments);
        long start = System.nanoTime();
        Done done = work.run(arguments);
        long nanoseconds = System.nanoTime() - start;
        work.finish(arguments);
        return nanoseconds + "\t" + done.bytes() + "\t" + done.records();
    }
}
