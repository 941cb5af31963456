"""The rows about open transactions, and the ways to end a hanging one. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidelog.inspect.transaction_survey import JudgedTransaction
from tidelog.inspect.transactions import OpenTransaction

FIELDS = (
    "producer_id",
    "producer_epoch",
    "coordinator_epoch",
    "start_offset",
    "start_timestamp",
    "last_offset",
    "last_timestamp",
    "records",
    "bytes",
    "held_back_records",
    "held_back_offsets",
    "held_back_bytes",
    "log_start",
    "last_stable",
    "high_watermark",
    "log_end",
)
"""The values of ``OpenTransaction`` in a row."""
JUDGED = ("age_ms", "transactional_id", "state", "timeout_ms", "known_epoch", "verdict", "hangs", "reason", "error")
"""The values that come from the coordinator, and from the verdict."""


def transaction_row(judged: JudgedTransaction, now_ms: int) -> dict[str, Any]:
    """Return the row of an open transaction."""
    transaction, judgement = judged.transaction, judged.judgement
    known, started = judgement.known, transaction.start_timestamp
    values = (
        None if started is None else now_ms - started,
        None if known is None else known.name,
        None if known is None else known.state,
        None if known is None else known.timeout_ms,
        None if known is None else known.producer_epoch,
        judgement.verdict.value,
        judgement.verdict.hangs,
        judgement.reason,
        None,
    )
    return {
        "directory": str(transaction.directory.parent),
        "topic": transaction.partition.topic,
        "partition": transaction.partition.partition,
        **{name: getattr(transaction, name) for name in FIELDS},
        **dict(zip(JUDGED, values, strict=True)),
    }


def endings(transaction: OpenTransaction) -> Iterator[str]:
    """Yield sentences that tell how to end a hanging transaction, with a broker and without."""
    partition = transaction.partition
    yield (
        "A running broker ends it with: kafka-transactions.sh --bootstrap-server HOST:PORT abort"
        f" --topic {partition.topic} --partition {partition.partition} --start-offset {transaction.start_offset}"
    )
    yield (
        "Without a broker, in Python: tidelog.open_directory"
        f"({str(transaction.directory.parent)!r}).producer({transaction.producer_id},"
        f" epoch={transaction.producer_epoch})"
    )
