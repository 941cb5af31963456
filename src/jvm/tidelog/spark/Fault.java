package tidelog.spark;

/** The faults inside a batch, with the sentences of the Python reader. */
enum Fault {
    NONE("nothing is wrong", false),
    RECORD_COUNT("the record count is negative or more than the batch has bytes for", false),
    RECORD_LENGTH("a record's length is not a varint, too small, or runs past the end of the batch", true),
    TIMESTAMP("a record's timestamp delta is not a varint", true),
    OFFSET("a record's offset delta is not a varint or lies outside its batch", true),
    KEY("a record's key is truncated or runs past the end of the record", true),
    VALUE("a record's value is truncated or runs past the end of the record", true),
    HEADER_COUNT(
            "a record's header count is not a varint, negative, or more than the record has bytes for", true),
    HEADER_KEY("a record header's key is null, truncated, or runs past the end of the record", true),
    HEADER_VALUE("a record header's value is truncated or runs past the end of the record", true),
    RECORD_END("a record's fields end before its length says", true),
    BATCH_END("bytes are left after the last record of the batch", false);

    private final String sentence;
    private final boolean ofRecord;

    Fault(String sentence, boolean ofRecord) {
        this.sentence = sentence;
        this.ofRecord = ofRecord;
    }

    /** Return the sentence for record number {@code record} of {@code count}. */
    String sentence(int record, int count) {
        return ofRecord ? sentence + ": record " + record + " of " + count : sentence;
    }
}
