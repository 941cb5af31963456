package tidelog.spark;

import java.io.Closeable;
import java.util.function.Predicate;
import tidelog.spark.Chunk.Stop;
import tidelog.spark.Piece.Segment;
import tidelog.spark.SegmentFile.MissingFileException;

/**
 * The wanted batches of a piece in offset order, each once, even while a broker changes the files.
 *
 * <p>The rules are those of the Python reader's {@code row_stream}. A broker may roll, delete, compact or truncate
 * during a read. If a file of a held directory has disappeared, or if its bytes are inconsistent, the stream lists the
 * directory again. It continues at the next offset that it has not delivered. An inconsistency that remains is real.
 *
 * <p>A batch is corrupt unless its CRC and header are valid, offsets ascend, and they stay below the next segment's
 * base offset. If damage is skipped, the stream continues at the next batch that meets all conditions.
 *
 * <p>Thread rule: one thread.
 */
final class PieceStream implements Closeable {
    private static final int RETRIES = 5;

    private final Piece piece;
    private final ReadSettings settings;
    private final Damage damage;
    private final Chunk chunk;
    private final Predicate<BatchHeader> opens;

    private Segment[] segments;
    private boolean isListedAgain;
    private int number = -1;
    private SegmentFile file;
    private long endPosition;
    private long lastOffset;
    private long seenTo;
    private int retries;
    private boolean isDone;
    private boolean isOpen;

    /** The first offset that was neither delivered nor skipped yet. */
    private long nextOffset;

    /**
     * Begin at the piece's first offset.
     *
     * @param opens null if every batch is read. Otherwise only headers are read, without a check of CRCs, except for the
     *     batches that it accepts.
     */
    PieceStream(Piece piece, ReadSettings settings, Damage damage, Predicate<BatchHeader> opens) {
        this.piece = piece;
        this.settings = settings;
        this.damage = damage;
        this.opens = opens;
        chunk = new Chunk(opens != null);
        segments = piece.segments;
        nextOffset = piece.start;
        seenTo = piece.start;
        isDone = piece.start >= piece.end;
    }

    Chunk chunk() {
        return chunk;
    }

    /** Return True if the current batch's records were read, although only headers are read in general. */
    boolean isOpen() {
        return isOpen;
    }

    String path() {
        return file.path;
    }

    /** Return an error about the current batch with its place. */
    TidelogException placed(CorruptRecordException error) {
        return new TidelogException(
                TidelogException.at(error.getMessage(), path(), chunk.batchPosition(), chunk.batch.baseOffset));
    }

    /** Read the next bytes, of the next segment if need be. Return False at the end of the piece. */
    boolean nextChunk() {
        while (!isDone) {
            try {
                if (file == null && !openNext()) {
                    return false;
                }
                if (chunk.load()) {
                    return true;
                }
                endSegment();
            } catch (MissingFileException missing) {
                listAgain(missing);
            }
        }
        return false;
    }

    /**
     * Move to the next wanted batch of the chunk. Return False at the chunk's end.
     *
     * @throws TidelogException for damage that must not be skipped
     */
    boolean nextBatch() {
        BatchHeader batch = chunk.batch;
        while (!isDone && file != null && chunk.nextBatch()) {
            isOpen = needsRecords(batch);
            String fault = isOpen && !chunk.openBatch() ? Stop.PARTIAL.reason : faultOf(batch);
            if (fault != null) {
                corrupt(chunk.batchPosition(), fault);
                return false;
            }
            long previousEnd = lastOffset + 1;
            lastOffset = batch.lastOffset;
            seenTo = lastOffset + 1;
            if (batch.baseOffset >= piece.end && !mayBeginEarlier(batch, previousEnd)) {
                nextOffset = Math.max(nextOffset, piece.end);
                isDone = true;
                return false;
            }
            boolean isBefore = lastOffset < nextOffset;
            nextOffset = Math.max(nextOffset, lastOffset + 1);
            isDone = nextOffset >= piece.end;
            if (!isBefore && isWanted(batch)) {
                retries = 0;
                return true;
            }
        }
        return false;
    }

    /** A compressed v0 or v1 message carries its last record's offset, and its first record may be wanted. */
    private boolean mayBeginEarlier(BatchHeader batch, long previousEnd) {
        return batch.isWrapper() && previousEnd < piece.end;
    }

    private boolean needsRecords(BatchHeader batch) {
        if (opens == null || batch.lastOffset < nextOffset || (batch.baseOffset >= piece.end && !batch.isWrapper())) {
            return false;
        }
        return isWanted(batch) && opens.test(batch);
    }

    private boolean isWanted(BatchHeader batch) {
        if (batch.isControl() && !settings.controlRecords) {
            return false;
        }
        if (piece.aborted != null && piece.aborted.contain(batch)) {
            return false;
        }
        return batch.maxTimestamp >= settings.minTimestampMs;
    }

    /** Return a clause that describes an invalid batch, or null. */
    private String faultOf(BatchHeader batch) {
        if (!batch.crcOk) {
            return String.format("the CRC of a batch does not match (stored 0x%08x)", batch.crc);
        }
        if (!batch.headerOk) {
            return "the header of a batch is inconsistent";
        }
        if (batch.baseOffset <= lastOffset) {
            return "a batch begins at offset " + batch.baseOffset + ", the previous one ended at " + lastOffset;
        }
        long endOffset = segments[number].endOffset;
        if (batch.lastOffset >= endOffset) {
            return "a batch ends at offset " + batch.lastOffset + ", the segment ends before " + endOffset;
        }
        return null;
    }

    /** Open the segment of the next offset. Return False if there is none. */
    private boolean openNext() {
        number++;
        while (number < segments.length - 1 && segments[number + 1].baseOffset <= nextOffset) {
            number++;
        }
        if (number >= segments.length) {
            endPiece();
            return false;
        }
        Segment segment = segments[number];
        boolean isPlanned = number == 0 && !isListedAgain;
        file = SegmentFile.open(piece.directory + "/" + segment.file, settings.hadoop);
        endPosition = segment.endPosition;
        seenTo = segment.baseOffset;
        begin(isPlanned ? piece.position : 0);
        return true;
    }

    private void begin(long position) {
        long size = file.size();
        lastOffset = -1;
        chunk.begin(file, position, endPosition < 0 ? size : Math.min(endPosition, size), settings.verifyChecksums);
    }

    /** Leave a segment whose bytes are used up, or report bytes at its end that are no batch. */
    private void endSegment() {
        Stop stop = chunk.stop;
        boolean isOpenEnd = isListedAgain && number == segments.length - 1; // the broker may be writing there
        if (!isOpenEnd && (stop != Stop.END || chunk.position() < endPosition)) {
            corrupt(chunk.position(), (stop == Stop.END ? Stop.PARTIAL : stop).reason);
            return;
        }
        close();
    }

    private void endPiece() {
        isDone = true;
        long logEnd = isListedAgain ? Math.max(seenTo, nextOffset) : piece.logEnd;
        if (nextOffset < piece.end && piece.end > logEnd) {
            lost("the log was truncated to " + logEnd + " while it was read");
        }
    }

    /** Continue after damage if it does not affect this read, or may be skipped. Otherwise throw it. */
    private void corrupt(long position, String reason) {
        Resync resync = new Resync(file, position, endPosition);
        if (nextOffset == piece.start) {
            // A valid batch at or below the first wanted offset proves that the damage lies before the range.
            long resumed = resync.nextValidBatch(seenTo, nextOffset + 1);
            if (resumed >= 0) {
                begin(resumed);
                return;
            }
        }
        if (piece.held && retries < RETRIES) {
            listAgain(null);
            return;
        }
        if (!settings.skipsDamage) {
            isDone = true;
            throw new TidelogException(TidelogException.at(reason, file.path, position, nextOffset));
        }
        long resumed = resync.nextValidBatch(nextOffset, segments[number].endOffset);
        resumed = resumed >= 0 ? resumed : endPosition < 0 ? file.size() : endPosition;
        damage.add(file.path, position, resumed - position, seenTo, reason);
        begin(resumed);
    }

    /** List the directory again, and continue at the next offset. */
    private void listAgain(MissingFileException missing) {
        close();
        boolean isStored = HadoopFiles.isAddress(piece.directory);
        PartitionListing listing = isStored ? null : PartitionListing.of(piece);
        boolean exists = isStored ? settings.hadoop.has(piece.directory) : listing != null;
        if (missing != null && !piece.held && exists) {
            throw missing; // no owner, so no process may have rolled, deleted or compacted
        }
        retries++;
        if (retries > RETRIES) {
            throw new MissingFileException(
                    "a segment is missing after " + RETRIES + " attempts", piece.directory, nextOffset);
        }
        if (listing == null) {
            if (settings.failOnDataLoss) {
                throw missing != null ? missing : new MissingFileException(
                        "cannot list: no such file or directory", piece.directory, -1);
            }
            lost("the partition was deleted while it was read");
            isDone = true;
            return;
        }
        if (nextOffset < listing.logStart) {
            lost("records were deleted while they were read: the log starts at " + listing.logStart + " now");
            nextOffset = listing.logStart;
        }
        segments = listing.segments;
        isListedAgain = true;
        number = -1;
        isDone = nextOffset >= piece.end;
    }

    private void lost(String what) {
        String sentence = TidelogException.at(what, piece.directory, -1, nextOffset);
        if (settings.failOnDataLoss) {
            isDone = true;
            throw new TidelogException(sentence);
        }
        Warnings.warn(sentence + "; reading what is there");
    }

    @Override
    public void close() {
        if (file != null) {
            file.close();
            file = null;
        }
    }
}
