package tidelog.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * A file on a disk, read with positions and never mapped: a running broker may truncate it.
 *
 * <p>It stays readable after it was renamed or deleted.
 */
final class DiskFile extends SegmentFile {
    /** A read of the operating system has at most this many bytes, because Java copies them once more. */
    private static final int STEP_BYTES = 1024 * 1024;

    private final FileChannel channel;

    DiskFile(String path) throws IOException {
        super(path);
        try {
            channel = FileChannel.open(Path.of(path), StandardOpenOption.READ);
        } catch (NoSuchFileException error) {
            throw MissingFileException.atOpening(path);
        } catch (AccessDeniedException error) {
            throw denied(path, error);
        }
    }

    @Override
    long size() {
        try {
            return channel.size();
        } catch (IOException error) {
            throw failure("read", path, error);
        }
    }

    @Override
    int readSome(long position, byte[] data, int at, int length) throws IOException {
        return channel.read(ByteBuffer.wrap(data, at, Math.min(length, STEP_BYTES)), position);
    }

    @Override
    void release() throws IOException {
        channel.close();
    }
}
