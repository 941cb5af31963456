"""The producer ids, sequences and transactions of a log, and their snapshot."""

from tidelog.storage.producer.append_info import AppendOrigin, CompletedTransaction, ProducerAppendInfo
from tidelog.storage.producer.entry import CachedBatch, LastRecord, ProducerBatch, ProducerEntry
from tidelog.storage.producer.marker import MarkerRecord, read_marker
from tidelog.storage.producer.replay_rows import relevant_rows
from tidelog.storage.producer.snapshot import SNAPSHOT_VERSION, format_snapshot, parse_snapshot
from tidelog.storage.producer.state import (
    LATE_TRANSACTION_BUFFER_MS,
    PRODUCER_ID_EXPIRATION_MS,
    EndedTransaction,
    ProducerState,
)
from tidelog.storage.producer.transactions import OpenTransaction, Transactions
from tidelog.storage.producer.verification import NO_GUARD, PendingVerification, VerificationGuard, Verifications

__all__ = [
    "LATE_TRANSACTION_BUFFER_MS",
    "NO_GUARD",
    "PRODUCER_ID_EXPIRATION_MS",
    "SNAPSHOT_VERSION",
    "AppendOrigin",
    "CachedBatch",
    "CompletedTransaction",
    "EndedTransaction",
    "LastRecord",
    "MarkerRecord",
    "OpenTransaction",
    "PendingVerification",
    "ProducerAppendInfo",
    "ProducerBatch",
    "ProducerEntry",
    "ProducerState",
    "Transactions",
    "VerificationGuard",
    "Verifications",
    "format_snapshot",
    "parse_snapshot",
    "read_marker",
    "relevant_rows",
]
