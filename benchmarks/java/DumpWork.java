import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.PrintStream;
import kafka.tools.DumpLogSegments;
import scala.Console;
import scala.runtime.BoxedUnit;

/** DumpLogSegments itself: {@code dump logFile outputFile switch...}; its text goes to the output file. */
final class DumpWork implements Peer.Work {
    @Override
    public Peer.Done run(String[] arguments) throws Exception {
        File log = new File(arguments[0]);
        String[] switches = new String[arguments.length];
        switches[0] = "--files";
        switches[1] = log.getPath();
        System.arraycopy(arguments, 2, switches, 2, arguments.length - 2);
        // A large buffer and no flush at each line, as the JVM's own System.out does: the tool's work alone is timed.
        FileOutputStream file = new FileOutputStream(arguments[1]);
        try (PrintStream out = new PrintStream(new BufferedOutputStream(file, 1 << 16), false)) {
            Console.withOut(out, () -> {
                DumpLogSegments.main(switches);
                return BoxedUnit.UNIT;
            });
        }
        return new Peer.Done(log.length(), 0);
    }
}
