package tidelog.spark;

import java.util.ArrayList;
import java.util.List;

/**
 * The damage that a piece's read skips, as rows of {@code onCorrupt} = {@code report}, else dropped.
 *
 * <p>A damaged stretch may cross the boundaries between pieces, but is reported once. The piece that holds its first
 * offset reports it, or the first piece of a read that begins within it.
 */
final class Damage {
    /** One row: the first offset that may be missing, and a sentence. */
    record Row(long offset, String sentence) {}

    private final Piece piece;
    private final boolean isReported;
    private List<Row> rows = new ArrayList<>();

    Damage(Piece piece, boolean isReported) {
        this.piece = piece;
        this.isReported = isReported;
    }

    void add(String file, long position, long size, long offset, String reason) {
        boolean beginsHere = piece.start <= offset && offset < piece.end;
        if (beginsHere || (piece.leads && offset < piece.start)) {
            addRow(file, position, size, offset, reason);
        }
    }

    /** Add the bytes after the log end, if this piece reaches it. */
    void addTail() {
        Piece.Tail tail = piece.tail;
        if (tail != null) {
            addRow(tail.file, tail.position, tail.length, piece.end, tail.reason + ", after the log end");
        }
    }

    private void addRow(String file, long position, long size, long offset, String reason) {
        if (isReported) {
            long first = Math.max(offset, piece.start);
            rows.add(new Row(first, reason + " (file " + file + ", position " + position + ", " + size
                    + " bytes, from offset " + first + ")"));
        }
    }

    boolean isEmpty() {
        return rows.isEmpty();
    }

    /** Return the rows added since the last call. */
    List<Row> drain() {
        List<Row> drained = rows;
        rows = new ArrayList<>();
        return drained;
    }
}
