import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.Map;

/**
 * Kafka's side of the benchmarks: one warm JVM that does a piece of work for each line on stdin. A line is the work's
 * name and its arguments, separated by tabs; the answer is "nanoseconds TAB bytes TAB records", or "error TAB text".
 * The driver runs it in turn with tidelog's side, which speaks the same lines. Answers go to the file descriptor that
 * is the argument; stdout is the works' own.
 */
public final class Peer {
    private static final Map<String, Work> WORKS = Map.of(
        "generate", new GenerateWork(),
        "scan", new ScanWork(),
        "decode", new DecodeWork(),
        "recover", new RecoverWork(),
        "dump", new DumpWork(),
        "append", new AppendWork(),
        "populate", new PopulateWork(),
        "load", new LoadWork(),
        "compact", new CompactWork());

    private Peer() {
    }

    /** One kind of work: what is not to be timed, what is, and what follows it. */
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
                answers.println(time(WORKS.get(words[0]), Arrays.copyOfRange(words, 1, words.length)));
            } catch (Throwable error) {
                error.printStackTrace();
                answers.println("error\t" + error);
            }
            answers.flush();
        }
        System.exit(0);
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
