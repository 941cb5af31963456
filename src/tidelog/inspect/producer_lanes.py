"""The batches of a part of a log by producer, with the breaks in each producer's sequence. Pure.

A producer numbers its records from 0 in each epoch, and the numbers wrap around after 2^31 - 1. A *gap* is a batch
whose first sequence does not follow the producer's batch before it. The cleaner makes gaps in compacted topics. In
other topics a broker accepts one only after it has forgotten the producer, so records may be lost or written twice.

An *epoch bump* is a batch or marker with another epoch than the one before it: the producer was initialized again, or
its coordinator fenced it. Markers have no sequence. The first batch of a producer in the part has nothing to compare
with. Source: KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.inspect.batch_window import BatchWindow
from tidelog.kernel import last_sequence_of, next_sequence
from tidelog.record.batch_header import MAX_SEQUENCE
from tidelog.storage.log.view.transaction_scan import ABORT, COMMIT
from tidelog.storage.producer.entry import NO_SEQUENCE

NO_PRODUCER = -1


class BlockKind(enum.StrEnum):
    DATA = "data"
    TRANSACTIONAL = "transactional"
    COMMIT = "commit"
    ABORT = "abort"
    CONTROL = "control"
    """A control batch that ends no transaction."""

    @property
    def is_data(self) -> bool:
        return self in (BlockKind.DATA, BlockKind.TRANSACTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A batch. ``records`` is -1 for a compressed set of an old format. Sequences are -1 if there are none."""

    kind: BlockKind
    epoch: int
    first_offset: int
    last_offset: int
    first_sequence: int
    last_sequence: int
    records: int
    size: int
    segment: int
    position: int
    expected_sequence: int | None = None
    """The sequence that would follow the producer's batch before it, if this batch has another one: a gap."""
    previous_epoch: int | None = None
    """The epoch of the producer's batch before it, if this batch has another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The batches of one producer in offset order. The batches without a producer id have ``NO_PRODUCER``."""

    producer_id: int
    blocks: tuple[Block, ...]

    @property
    def gaps(self) -> int:
        return sum(block.expected_sequence is not None for block in self.blocks)

    @property
    def epoch_bumps(self) -> int:
        return sum(block.previous_epoch is not None for block in self.blocks)


@dataclass(slots=True)
class _Last:
    """The producer's state after a batch."""

    epoch: int
    sequence: int | None
    """None until the producer's first data batch in this part. The largest sequence after an epoch bump, so that the
    next one is 0."""


def lanes_of(window: BatchWindow) -> list[Lane]:
    """Return a lane for each producer of the window, in the order of their first batches."""
    markers = dict(zip(window.transactions.base_offset.tolist(), window.transactions.kind.tolist(), strict=True))
    lasts: dict[int, _Last] = {}
    lanes: dict[int, list[Block]] = {}
    columns = (window.table.is_control.tolist(), window.table.is_transactional.tolist(), window.segments.tolist())
    for row, is_control, is_transactional, segment in zip(window.table.rows(), *columns, strict=True):
        producer_id = max(NO_PRODUCER, row.producer_id)
        first_sequence = row.base_sequence if producer_id >= 0 and not is_control else NO_SEQUENCE
        epoch = row.producer_epoch if producer_id >= 0 else -1
        last = lasts.get(producer_id)
        is_bump = last is not None and last.epoch != epoch
        before = MAX_SEQUENCE if is_bump else None if last is None else last.sequence
        expected = None if before is None else next_sequence(before)
        last_sequence = last_sequence_of(first_sequence, row.last_offset - row.base_offset)
        lanes.setdefault(producer_id, []).append(
            Block(
                kind=_kind(is_control, is_transactional, markers, row.base_offset),
                epoch=epoch,
                first_offset=row.base_offset,
                last_offset=row.last_offset,
                first_sequence=first_sequence,
                last_sequence=last_sequence,
                records=row.record_count,
                size=row.size,
                segment=segment,
                position=row.position,
                expected_sequence=expected if first_sequence not in (NO_SEQUENCE, expected) else None,
                previous_epoch=last.epoch if last is not None and is_bump else None,
            )
        )
        lasts[producer_id] = _Last(epoch, before if last_sequence == NO_SEQUENCE else last_sequence)
    return [Lane(producer_id=producer_id, blocks=tuple(blocks)) for producer_id, blocks in lanes.items()]


def _kind(is_control: bool, is_transactional: bool, markers: Mapping[int, int], offset: int) -> BlockKind:
    if not is_control:
        return BlockKind.TRANSACTIONAL if is_transactional else BlockKind.DATA
    return {COMMIT: BlockKind.COMMIT, ABORT: BlockKind.ABORT}.get(markers.get(offset, -1), BlockKind.CONTROL)
