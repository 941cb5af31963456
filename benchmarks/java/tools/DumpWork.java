import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.PrintStream;
import org.apache.kafka.tools.DumpLogSegments;

/**
 * DumpLogSegments itself: {@code dump logFile outputFile switch...}. Its text goes to the output file, or to this JVM's
 * stdout, as it does when people run it, where that is "-".
 */
final class DumpWork implements Peer.Work {
    @Override
    public Peer.Done run(String[] arguments) throws Exception {
        File log = new File(arguments[0]);
        String[] switches = arguments.clone();
        switches[0] = "--files";
        switches[1] = log.getPath();
        if (arguments[1].equals("-")) {
            DumpLogSegments.main(switches);
        } else {
            PrintStream usual = System.out;
            try (PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(arguments[1])))) {
                System.setOut(out);
                DumpLogSegments.main(switches);
            } finally {
                System.setOut(usual);
            }
        }
        return new Peer.Done(log.length(), 0);
    }
}
