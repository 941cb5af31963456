package tidelog.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import tidelog.spark.Piece.Segment;

/**
 * A partition's segments and log start now, for a read whose files a running broker changed since the planning.
 *
 * <p>The broker may be writing to the last segment, so its end is not known. A listing that was taken while the broker
 * renames files can miss one. So the directory is listed until two listings agree and no file is being swapped.
 */
final class PartitionListing {
    private static final int ATTEMPTS = 20;
    private static final long PAUSE_MS = 10;
    private static final String LOG = ".log";
    private static final String SWAP = ".swap";
    private static final String LOG_STARTS = "log-start-offset-checkpoint";

    final Segment[] segments;
    final long logStart;

    private PartitionListing(Segment[] segments, long logStart) {
        this.segments = segments;
        this.logStart = logStart;
    }

    /** List a piece's partition. Return null if its directory is gone. */
    static PartitionListing of(Piece piece) {
        Path directory = Path.of(piece.directory);
        String[] names = stableNames(directory);
        if (names == null) {
            return null;
        }
        String[] logs = Arrays.stream(names).filter(name -> name.endsWith(LOG)).toArray(String[]::new);
        Segment[] segments = new Segment[logs.length];
        for (int i = 0; i < logs.length; i++) {
            long above = i + 1 < logs.length ? baseOffset(logs[i + 1]) : Long.MAX_VALUE;
            segments[i] = new Segment(logs[i], baseOffset(logs[i]), above, -1);
        }
        long first = segments.length == 0 ? 0 : segments[0].baseOffset;
        return new PartitionListing(segments, Math.max(first, checkpointedStart(directory.getParent(), piece)));
    }

    private static long baseOffset(String name) {
        return Long.parseLong(name.substring(0, name.length() - LOG.length()));
    }

    private static String[] stableNames(Path directory) {
        String[] names = directory.toFile().list();
        for (int attempt = 0; attempt < ATTEMPTS && names != null; attempt++) {
            Arrays.sort(names);
            String[] again = directory.toFile().list();
            if (again == null) {
                return null;
            }
            Arrays.sort(again);
            boolean isSwapping = Arrays.stream(again).anyMatch(name -> name.endsWith(SWAP));
            if (Arrays.equals(names, again) && !isSwapping) {
                break;
            }
            names = again;
            if (isSwapping) {
                pause();
            }
        }
        return names;
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static long checkpointedStart(Path logDir, Piece piece) {
        List<String> lines;
        try {
            lines = Files.readAllLines(logDir.resolve(LOG_STARTS));
        } catch (IOException error) {
            return 0; // a directory without the file has no deleted records
        }
        String prefix = piece.topic + " " + piece.partition + " ";
        for (String line : lines) {
            if (line.startsWith(prefix)) {
                return Long.parseLong(line.substring(prefix.length()).trim());
            }
        }
        return 0;
    }
}
