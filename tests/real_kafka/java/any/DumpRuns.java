import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;

/**
 * Runs of the dump tool in this JVM, which saves the start of a JVM for each. The argument is the tool's main class. A
 * line on stdin is a run: its arguments, separated by tabs. Prints a line with the exit code and the sizes of the run's
 * stdout and stderr, and then their bytes.
 */
public final class DumpRuns {
    private DumpRuns() {
    }

    public static void main(String[] arguments) throws Exception {
        Method tool = Class.forName(arguments[0]).getMethod("main", String[].class);
        BufferedReader runs = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream replies = System.out;
        // The streams are the same in all runs, because Scala's Console keeps the first ones.
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, false, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, false, StandardCharsets.UTF_8));
        String line;
        while ((line = runs.readLine()) != null) {
            out.reset();
            err.reset();
            int code = run(tool, line.split("\t"));
            System.out.flush();
            System.err.flush();
            replies.println(code + " " + out.size() + " " + err.size());
            out.writeTo(replies);
            err.writeTo(replies);
            replies.flush();
        }
    }

    private static int run(Method tool, String[] arguments) throws IllegalAccessException {
        try {
            tool.invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException failure) {
            System.err.print("Exception in thread \"main\" ");
            failure.getCause().printStackTrace();
            return 1;
        }
    }
}
