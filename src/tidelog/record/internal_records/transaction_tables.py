"""The tables of ``__transaction_state``, with the transaction coordinator's only record type.

They are facts of Kafka's message definitions (module transaction-coordinator). The schema module explains the notation.
"""

from __future__ import annotations

from tidelog.record.internal_records.frames import pair_up
from tidelog.record.internal_records.schema import parse_messages

MESSAGES = parse_messages(
    """
TransactionLogKey 0 versions 0-0 flexible none
    transactionalId string
TransactionLogValue 0 versions 0-1 flexible 1+
    producerId int64
    previousProducerId int64 1+ tag 0 = -1
    nextProducerId int64 1+ tag 1 = -1
    producerEpoch int16
    nextProducerEpoch int16 1+ tag 3 = -1
    transactionTimeoutMs int32
    transactionStatus int8
    transactionPartitions []PartitionsSchema?
        topic string
        partitionIds []int32
    transactionLastUpdateTimestampMs int64
    transactionStartTimestampMs int64
    clientTransactionVersion int16 1+ tag 2
"""
)

TRANSACTION_TYPES = pair_up(MESSAGES)
