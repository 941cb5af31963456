"""Records of ``__transaction_state``: the transactional id is the key, its state the value. Pure.

An expired id has no value. The version of a value follows the cluster's ``transaction.version``: 0 without it, 1 from 1
on. Version 0 lacks the previous and next producer id and the client's version. Kafka 4.1 and 4.2 omit the two ids from
version 1 too, although they read them. A coordinator that starts during an epoch overflow then does not know the
promised next producer id. Kafka 4.3 and newer write the ids, and so does this code.

Partitions are written sorted, Kafka writes them in the sequence of a hash table. The Empty state has no list of them,
not even an empty list. Source: Kafka's ``TransactionLog``.
"""

from __future__ import annotations

from typing import Any

from tidelog.model import TopicPartition, UnsupportedFormatError
from tidelog.record.internal_records.frames import decode_key, decode_value, encode_key, encode_value
from tidelog.record.internal_records.transaction_state import TransactionState
from tidelog.record.internal_records.transaction_tables import TRANSACTION_TYPES
from tidelog.server.transactions.rules.topics import partitions_by_topic
from tidelog.server.transactions.rules.transaction import NO_PRODUCER_ID, TransactionRecord

_RECORD_TYPE = 0


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


def record_of(value: bytes) -> TransactionRecord:
    """Decode a value. Raise CorruptRecordError if malformed, UnsupportedFormatError for an unknown version or state."""
    decoded = decode_value(TRANSACTION_TYPES, _RECORD_TYPE, value)
    fields = decoded.fields
    if fields is None:
        raise UnsupportedFormatError(f"a transaction's record has version {decoded.version}")
    try:
        state = TransactionState(fields["transactionStatus"])
    except ValueError:
        raise UnsupportedFormatError(f"a transaction's record has state {fields['transactionStatus']}") from None
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
