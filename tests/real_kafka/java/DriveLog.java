import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import kafka.tools.DumpLogSegments;
import scala.Console;
import scala.runtime.BoxedUnit;

/**
 * Kafka's own UnifiedLog, driven by lists of operations. A line on stdin is a request, words separated by tabs:
 * {@code drive FILE} carries out the operations in a file, a line each (see DrivenLog), and prints a line of result for
 * each; {@code dump SWITCH...} prints what kafka-dump-log prints, but for its findings. A line with a single dot ends each answer.
 */
public final class DriveLog {
    private DriveLog() {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = line.split("\t");
            if (words[0].equals("drive")) {
                drive(Path.of(words[1]), answers);
            } else {
                answers.print(dump(Arrays.copyOfRange(words, 1, words.length)));
            }
            answers.println(".");
            answers.flush();
        }
        System.exit(0);
    }

    private static void drive(Path operations, PrintStream answers) throws IOException {
        DrivenLog log = new DrivenLog();
        for (String line : Files.readAllLines(operations)) {
            answers.println(log.perform(line.split("\t", -1)));
        }
    }

    private static String dump(String[] switches) {
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        PrintStream out = new PrintStream(text, false, StandardCharsets.UTF_8);
        PrintStream errors = System.err;
        System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        Console.withOut(out, () -> {
            DumpLogSegments.main(switches);
            return BoxedUnit.UNIT;
        });
        System.setErr(errors);
        out.flush();
        return text.toString(StandardCharsets.UTF_8);
    }
}
