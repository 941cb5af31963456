package tidelog.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.AccessControlException;
import org.apache.hadoop.util.functional.FutureIO;

/**
 * A file in a file system of Hadoop, mostly an object in a store. It has the size that it had at opening.
 *
 * <p>Reads move forward, so a store can keep one request open for them.
 */
final class HadoopFile extends SegmentFile {
    /** A hint that every file system may ignore. */
    private static final String POLICY = "fs.option.openfile.read.policy";

    private final FSDataInputStream stream;
    private final long size;

    HadoopFile(String address, HadoopFiles hadoop) throws IOException {
        super(address);
        try {
            Path path = hadoop.path(address);
            FileSystem files = hadoop.of(path);
            FileStatus status = files.getFileStatus(path);
            size = status.getLen();
            stream = FutureIO.awaitFuture(
                    files.openFile(path).withFileStatus(status).opt(POLICY, "sequential").build());
        } catch (FileNotFoundException error) {
            throw MissingFileException.atOpening(address);
        } catch (AccessControlException error) {
            throw denied(address, error);
        }
    }

    @Override
    long size() {
        return size;
    }

    @Override
    int readSome(long position, byte[] data, int at, int length) throws IOException {
        if (position >= size) {
            return 0;
        }
        stream.seek(position);
        return stream.read(data, at, (int) Math.min(length, size - position));
    }

    @Override
    void release() throws IOException {
        stream.close();
    }
}
