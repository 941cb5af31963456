package tidelog.spark;

import java.io.IOException;
import java.io.Serializable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.util.SerializableConfiguration;

/**
 * The file systems of Hadoop that a session has, by address: HDFS, S3, and others whose jars and settings it was given.
 *
 * <p>Addresses are those of the planner, whose library calls S3 {@code s3}. Hadoop's own store for it is {@code s3a}.
 * Serialized for the executors. Thread rule: any thread.
 */
final class HadoopFiles implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final String MARK = "://";
    private static final String S3 = "s3";

    private final SerializableConfiguration configuration;

    HadoopFiles(Configuration configuration) {
        this.configuration = new SerializableConfiguration(configuration);
    }

    /** Return the file systems of the running session, with its settings {@code spark.hadoop.…}. */
    static HadoopFiles ofSession() {
        return new HadoopFiles(SparkContext.getOrCreate().hadoopConfiguration());
    }

    /** Return True if a directory or file is not on a disk of this machine. */
    static boolean isAddress(String path) {
        return path.contains(MARK);
    }

    /** Return null if a directory can be reached, otherwise the reason. This asks its file system. */
    String obstacle(String directory) {
        try {
            Path path = path(directory);
            return of(path).getFileStatus(path).isDirectory() ? null : "it is no directory";
        } catch (IOException | RuntimeException | LinkageError error) {
            return error.toString(); // a file system's class may be missing, or refuse its settings
        }
    }

    boolean has(String directory) {
        return obstacle(directory) == null;
    }

    FileSystem of(Path path) throws IOException {
        return path.getFileSystem(configuration.value());
    }

    /** Return Hadoop's path of an address. Throw IllegalArgumentException for a chain, such as simplecache::s3. */
    Path path(String address) {
        int mark = address.indexOf(MARK);
        String scheme = address.substring(0, mark);
        boolean isForeign = scheme.equals(S3) && configuration.value().get("fs.s3.impl") == null;
        return new Path((isForeign ? "s3a" : scheme) + address.substring(mark));
    }
}
