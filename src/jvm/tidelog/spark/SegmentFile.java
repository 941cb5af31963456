package tidelog.spark;

import java.io.Closeable;
import java.io.IOException;

/** An open {@code .log}, on a disk or in a file system of Hadoop. Thread rule: one thread. */
abstract class SegmentFile implements Closeable {
    final String path;

    SegmentFile(String path) {
        this.path = path;
    }

    /**
     * Open a file.
     *
     * @param hadoop the file systems of addresses; null if the read has none
     * @throws MissingFileException if the file does not exist (any more)
     */
    static SegmentFile open(String path, HadoopFiles hadoop) {
        try {
            return HadoopFiles.isAddress(path) ? new HadoopFile(path, hadoop) : new DiskFile(path);
        } catch (IOException error) {
            throw failure("open", path, error);
        }
    }

    /** Return the number of bytes. Only on a disk it changes. */
    abstract long size();

    /** Read up to {@code length} bytes into {@code data} at {@code at}, and return their number: fewer at the end. */
    final int read(long position, byte[] data, int at, int length) {
        int done = 0;
        try {
            while (done < length) {
                int count = readSome(position + done, data, at + done, length - done);
                if (count <= 0) {
                    break;
                }
                done += count;
            }
        } catch (IOException error) {
            throw failure("read", path, error);
        }
        return done;
    }

    /** Read at least one byte, or return 0 or less at the end. */
    abstract int readSome(long position, byte[] data, int at, int length) throws IOException;

    abstract void release() throws IOException;

    @Override
    public final void close() {
        try {
            release();
        } catch (IOException error) {
            throw failure("close", path, error);
        }
    }

    static TidelogException failure(String action, String path, IOException error) {
        return new TidelogException(
                TidelogException.at("cannot " + action + ": " + error.getMessage(), path, -1, -1), error);
    }

    static TidelogException denied(String path, IOException error) {
        return new TidelogException(TidelogException.at("cannot open: permission denied", path, -1, -1), error);
    }

    /** A file of a log is not there: its owner may have renamed or deleted it. */
    static final class MissingFileException extends TidelogException {
        private static final long serialVersionUID = 1L;

        MissingFileException(String sentence, String path, long offset) {
            super(TidelogException.at(sentence, path, -1, offset));
        }

        static MissingFileException atOpening(String path) {
            return new MissingFileException("cannot open: no such file or directory", path, -1);
        }
    }
}
