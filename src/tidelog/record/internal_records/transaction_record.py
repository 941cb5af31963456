"""Records of ``__transaction_state``: the transactional id is the key, its state the value. Pure.

An expired id has no value. The version of a value follows the cluster's ``transaction.version``: 0 without it, 1 from 1
on. Version 0 lacks the previous and next producer id and the client's version. Kafka 4.1 and 4.2 omit the two ids from
version 1 too, although they read them. A coordinator that starts during an epoch overflow then does not know the
promised next producer id. Kafka 4.3 and newer write the ids, and so does this code.

Partitions are written sorted, Kafka writes them in the sequence of a hash table. The Empty state has no list of them,
not even an empty list. Source: Kafka's ``TransactionLog``, ``TransactionState``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tidelog.model import TopicPartition, UnsupportedFormatError
from tidelog.model.topic_partition import partitions_by_topic
from tidelog.record.internal_records.frames import decode_key, decode_value, encode_key, encode_value
from tidelog.record.internal_records.transaction_tables import TRANSACTION_TYPES

_RECORD_TYPE: Final = 0
NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
MAX_TIMEOUT_MS: Final = 2**31 - 1
"""A transaction with this timeout is never aborted because of its age (KIP-939)."""
LAST_EPOCH: Final = 2**15 - 2
"""The last epoch of a producer id that a client can get. The one above is reserved to fence its producer."""


class TransactionState(enum.IntEnum):
    """The numbers are the log's. A number of a newer Kafka is a state too, which is not ``is_known``."""

    EMPTY = 0
    """The producer has not begun a transaction yet."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    """The commit is decided, and its markers are being written."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """The producer expired, and a record without a value is being written."""
    PREPARE_EPOCH_FENCE = 7
    """The producer is being fenced and its transaction aborted; the next state is PREPARE_ABORT. No record has this."""

    @classmethod
    def _missing_(cls, value: object) -> TransactionState | None:
        if not isinstance(value, int):
            return None
        unknown = int.__new__(cls, value)
        unknown._name_, unknown._value_ = f"UNKNOWN_{value}", value
        return unknown

    @property
    def is_known(self) -> bool:
        return self in _LABELS

    @property
    def label(self) -> str:
        """Kafka's name of the state, such as ``PrepareCommit``."""
        return _LABELS.get(self, f"unknown ({int(self)})")


_LABELS: Final = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
STATES_BY_LABEL: Final[Mapping[str, TransactionState]] = {label: state for state, label in _LABELS.items()}
_IDLE: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
_PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    producer_epoch: int


NO_PRODUCER: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRecord:
    """The state of a transactional id in the log. Times are in ms, -1 for none."""

    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    last_update_ms: int
    start_ms: int = NO_TIME
    partitions: frozenset[TopicPartition] = frozenset()
    """The partitions of the transaction. After the decision, it has only those without a marker."""
    client_version: int = 0
    """The ``transaction.version`` of the client that made the last transition."""
    last_producer_epoch: int = NO_EPOCH
    """The epoch before the last bump. No record has it, so a retry after a restart is not recognized (as in Kafka)."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before this transition."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after this transaction, if the epochs of the current one are used up."""

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def is_idle(self) -> bool:
        """True if no transaction is open or ending."""
        return self.state in _IDLE

    @property
    def is_prepared(self) -> bool:
        """True if the transaction is decided and not yet complete."""
        return self.state in _PREPARED

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH

    def is_timed_out(self, now_ms: int) -> bool:
        return (
            self.state is TransactionState.ONGOING
            and self.timeout_ms != MAX_TIMEOUT_MS
            and self.start_ms + self.timeout_ms < now_ms
        )


def key_of(transactional_id: str) -> bytes:
    return encode_key(TRANSACTION_TYPES, _RECORD_TYPE, {"transactionalId": transactional_id})


def value_of(record: TransactionRecord, server_version: int) -> bytes:
    topics = [
        {"topic": topic, "partitionIds": numbers} for topic, numbers in partitions_by_topic(record.partitions).items()
    ]
    fields: dict[str, Any] = {
        "producerId": record.producer_id,
        "producerEpoch": record.producer_epoch,
        "transactionTimeoutMs": record.timeout_ms,
        "transactionStatus": int(record.state),
        "transactionPartitions": None if record.state is TransactionState.EMPTY else topics,
        "transactionLastUpdateTimestampMs": record.last_update_ms,
        "transactionStartTimestampMs": record.start_ms,
    }
    if server_version < 1:
        return encode_value(TRANSACTION_TYPES, _RECORD_TYPE, fields, 0)
    fields["clientTransactionVersion"] = record.client_version
    fields["nextProducerId"] = record.next_producer_id
    fields["previousProducerId"] = record.previous_producer_id
    return encode_value(TRANSACTION_TYPES, _RECORD_TYPE, fields, 1)


def transactional_id_of(key: bytes) -> str | None:
    """Return the id, or None for an unknown key type. Raise CorruptRecordError if the key is malformed."""
    decoded = decode_key(TRANSACTION_TYPES, key)
    return None if decoded.fields is None else str(decoded.fields["transactionalId"])


def record_of(value: bytes, *, allow_unknown_state: bool = False) -> TransactionRecord:
    """Decode a value. Raise CorruptRecordError if malformed, UnsupportedFormatError for an unknown version or state."""
    decoded = decode_value(TRANSACTION_TYPES, _RECORD_TYPE, value)
    fields = decoded.fields
    if fields is None:
        raise UnsupportedFormatError(f"a transaction's record has version {decoded.version}")
    state = TransactionState(fields["transactionStatus"])
    if not state.is_known and not allow_unknown_state:
        raise UnsupportedFormatError(f"a transaction's record has state {int(state)}")
    return TransactionRecord(
        state=state,
        producer_id=fields["producerId"],
        producer_epoch=fields["producerEpoch"],
        timeout_ms=fields["transactionTimeoutMs"],
        last_update_ms=fields["transactionLastUpdateTimestampMs"],
        start_ms=fields["transactionStartTimestampMs"],
        partitions=frozenset(
            TopicPartition(topic["topic"], partition)
            for topic in fields["transactionPartitions"] or ()
            for partition in topic["partitionIds"]
        ),
        client_version=fields.get("clientTransactionVersion", 0),
        previous_producer_id=fields.get("previousProducerId", fields["producerId"]),
        next_producer_id=fields.get("nextProducerId", NO_PRODUCER_ID),
    )
