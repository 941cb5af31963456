"""A segment's three indexes: by offset, by time, and of aborted transactions."""

from tidelog.storage.index.mapped_index import MappedIndex
from tidelog.storage.index.offset_index import OffsetIndexReader, OffsetIndexWriter, OffsetPosition
from tidelog.storage.index.time_index import TimeIndexReader, TimeIndexWriter, TimestampOffset
from tidelog.storage.index.transaction_index import (
    AbortedTransactions,
    AbortedTxn,
    TransactionIndexReader,
    TransactionIndexWriter,
    encode_transactions,
)

__all__ = [
    "AbortedTransactions",
    "AbortedTxn",
    "MappedIndex",
    "OffsetIndexReader",
    "OffsetIndexWriter",
    "OffsetPosition",
    "TimeIndexReader",
    "TimeIndexWriter",
    "TimestampOffset",
    "TransactionIndexReader",
    "TransactionIndexWriter",
    "encode_transactions",
]
