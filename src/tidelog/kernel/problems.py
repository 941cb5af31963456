"""The reasons to refuse a produce buffer: Kafka's rules for clients, with numbers and sentences."""

from __future__ import annotations

import enum


class Problem(enum.IntEnum):
    """The first rule that was broken; source: Kafka's ``LogValidator`` and ``UnifiedLog.analyzeAndValidateRecords``."""

    NONE = 0
    CORRUPT = 1
    OLD_FORMAT = 2
    TOO_LARGE = 3
    MANY_BATCHES = 4
    BASE_OFFSET = 5
    OFFSET_RANGE = 6
    CONTROL = 7
    SEQUENCE = 8
    RECORD_OFFSETS = 9
    NO_KEY = 10
    TIMESTAMP = 11
    TIMESTAMP_TYPE = 12

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]

    @property
    def error_code(self) -> int:
        """Kafka's protocol error code; 0 for NONE and for OLD_FORMAT, which asks for conversion."""
        return _CODES.get(self, 87)


_SENTENCES = {
    Problem.NONE: "nothing is wrong",
    Problem.CORRUPT: "the bytes contradict themselves",
    Problem.OLD_FORMAT: "the batch is of format v0 or v1 and must be converted",
    Problem.TOO_LARGE: "the batch is larger than the log takes",
    Problem.MANY_BATCHES: "a producer may send only one batch for a partition",
    Problem.BASE_OFFSET: "a producer's batch must begin at offset 0",
    Problem.OFFSET_RANGE: "the record count is not positive or is not the length of the batch's offset range",
    Problem.CONTROL: "a producer may not write control records",
    Problem.SEQUENCE: "the batch has a producer id but no sequence number",
    Problem.RECORD_OFFSETS: "the records' offsets do not count up by one",
    Problem.NO_KEY: "a compacted topic takes no record without a key",
    Problem.TIMESTAMP: "a record's timestamp is too far from the broker's clock",
    Problem.TIMESTAMP_TYPE: "a producer may not set the timestamp type to log append time",
}

# CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP; INVALID_RECORD for the rest.
_CODES = {
    Problem.NONE: 0,
    Problem.OLD_FORMAT: 0,
    Problem.CORRUPT: 2,
    Problem.TOO_LARGE: 10,
    Problem.TIMESTAMP: 32,
    Problem.TIMESTAMP_TYPE: 32,
}
