package tidelog.spark;

/** The bytes of a batch or record contradict themselves. The place is added where it is known. */
final class CorruptRecordException extends TidelogException {
    private static final long serialVersionUID = 1L;

    CorruptRecordException(String sentence) {
        super(sentence);
    }
}
