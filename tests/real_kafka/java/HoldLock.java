import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * Takes the lock of a file as a broker takes that of a log directory: {@code HoldLock file}. Prints {@code locked} or
 * {@code refused}; keeps the lock until its standard input ends.
 */
public final class HoldLock {
    private HoldLock() {
    }

    public static void main(String[] arguments) throws Exception {
        try (FileChannel channel = FileChannel.open(Path.of(arguments[0]), StandardOpenOption.CREATE,
                StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            FileLock lock = channel.tryLock();
            System.out.println(lock == null ? "refused" : "locked");
            System.in.read();
        }
    }
}
