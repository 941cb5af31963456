import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Kafka's own UnifiedLog, driven by lists of operations. A line on stdin names a file with operations, a line each (see
 * DrivenLog). The response has a line for each operation, and ends with a line that is a single dot.
 */
public final class DriveLog {
    private DriveLog() {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            drive(Path.of(line), answers);
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
}
