package tidelog.spark;

/**
 * An error with a sentence for a person: the problem first, then its place.
 *
 * <p>PySpark shows an {@code IllegalArgumentException} of the planning by its message, without a stack trace.
 */
class TidelogException extends IllegalArgumentException {
    private static final long serialVersionUID = 1L;

    TidelogException(String sentence) {
        super(sentence);
    }

    TidelogException(String sentence, Throwable cause) {
        super(sentence, cause);
    }

    /** Return a sentence with its place. A negative number has no meaning and is left out. */
    static String at(String sentence, String file, long position, long offset) {
        StringBuilder text = new StringBuilder(sentence).append(" (file ").append(file);
        if (position >= 0) {
            text.append(", position ").append(position);
        }
        if (offset >= 0) {
            text.append(", offset ").append(offset);
        }
        return text.append(')').toString();
    }
}
