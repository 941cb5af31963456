package tidelog.spark;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * An open {@code .log}, read with positions and never mapped: a running broker may truncate the file.
 *
 * <p>It stays readable after it was renamed or deleted. Thread rule: one thread.
 */
final class SegmentFile implements Closeable {
    /** A read of the operating system has at most this many bytes, because Java copies them once more. */
    private static final int STEP_BYTES = 1024 * 1024;

    private final FileChannel channel;
    final String path;

    /** Open the file. Throw MissingFileException if it does not exist (any more). */
    SegmentFile(String path) {
        this.path = path;
        try {
            channel = FileChannel.open(Path.of(path), StandardOpenOption.READ);
        } catch (NoSuchFileException error) {
            throw new MissingFileException("cannot open: no such file or directory", path, -1);
        } catch (AccessDeniedException error) {
            throw new TidelogException(TidelogException.at("cannot open: permission denied", path, -1, -1), error);
        } catch (IOException error) {
            throw failure("open", error);
        }
    }

    long size() {
        try {
            return channel.size();
        } catch (IOException error) {
            throw failure("read", error);
        }
    }

    /** Read up to {@code length} bytes into {@code data} at {@code at}, and return their number: fewer at the end. */
    int read(long position, byte[] data, int at, int length) {
        int done = 0;
        try {
            while (done < length) {
                int step = Math.min(length - done, STEP_BYTES);
                int count = channel.read(ByteBuffer.wrap(data, at + done, step), position + done);
                if (count <= 0) {
                    break;
                }
                done += count;
            }
        } catch (IOException error) {
            throw failure("read", error);
        }
        return done;
    }

    private TidelogException failure(String action, IOException error) {
        return new TidelogException(
                TidelogException.at("cannot " + action + ": " + error.getMessage(), path, -1, -1), error);
    }

    @Override
    public void close() {
        try {
            channel.close();
        } catch (IOException error) {
            throw failure("close", error);
        }
    }

    /** A file of a log is not there: its owner may have renamed or deleted it. */
    static final class MissingFileException extends TidelogException {
        private static final long serialVersionUID = 1L;

        MissingFileException(String sentence, String path, long offset) {
            super(TidelogException.at(sentence, path, -1, offset));
        }
    }
}
