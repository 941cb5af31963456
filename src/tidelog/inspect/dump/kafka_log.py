"""The text that ``kafka-dump-log`` prints for a ``.log`` or a metadata snapshot.

The text has a line per batch, followed by a line per record. ``kafka_lines`` builds the lines of a run of batches in
bulk, and this module joins them in pieces of about one run. Where Kafka's tool ends with an exception, the dump reports
the problem to ``complain`` and goes on as far as it can. Thread rule: one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.inspect.dump.kafka_lines import Complain, RecordLines, batch_lines
from tidelog.inspect.dump.log_batches import BatchRun, batch_runs
from tidelog.inspect.dump.options import MAX_BYTES_DEFAULT, KafkaFormatOptions
from tidelog.inspect.dump.payload_text import payload_text
from tidelog.kernel import Stop
from tidelog.storage.fs import File
from tidelog.storage.segment.segment_reader import Chunk, file_chunks

_MIN_RECORD_SIZE = 14
"""Kafka's reader throws for a smaller length. A larger batch that does not fit counts as the end of the file."""


class Gap(NamedTuple):
    """Two consecutive offsets in the file with missing offsets between them."""

    offset: int
    next_offset: int


class KafkaLogText:
    """A single dump of a file. Iterate ``pieces()`` once, then read ``gaps``."""

    def __init__(self, file: File, options: KafkaFormatOptions, complain: Complain) -> None:
        self._file = file
        self._options = options
        self._complain = complain
        self._records = RecordLines(options, payload_text(options), complain)
        self._last_offset = -1
        self._begins_at_zero = options.release.is_rewritten
        self.gaps: list[Gap] = []
        """The gaps in file order. They are found only if records are iterated."""

    def pieces(self) -> Iterator[str]:
        """Yield the text in pieces of complete lines."""
        end = min(self._file.size, self._options.max_bytes)
        position = 0
        for chunk in file_chunks(self._file, 0, end):
            table = chunk.table
            position = table.end_position
            if self._options.iterates_records:
                for run in batch_runs(chunk):
                    yield self._run_text(run)
                    if run.error is not None:
                        self._complain(str(run.error))
            elif len(table):
                yield batch_lines(table).text
            if _throws_in_kafka(chunk):
                self._complain(f"{self._file.path}: no batch can begin at position {position} ({table.stop.name})")
                return
        if position < end and self._options.max_bytes == MAX_BYTES_DEFAULT:
            yield f"Found {end - position} invalid bytes at the end of {self._file.path.name}\n"

    def _run_text(self, run: BatchRun) -> str:
        batches = batch_lines(run.table.take(slice(run.first, run.last)))
        if run.columns is not None:
            self._note_gaps(run.columns.offset)
            return self._records.below(batches, run, run.columns)
        messages = run.messages or []
        self._note_gaps(np.array([message.offset for message in messages], np.int64))
        return batches.text + self._records.of_messages(run, messages)

    def _note_gaps(self, offsets: npt.NDArray[np.int64]) -> None:
        if not len(offsets):
            return
        is_first = self._last_offset < 0 and not self._begins_at_zero
        before = np.concatenate(([offsets[0] - 1 if is_first else self._last_offset], offsets[:-1]))
        for index in np.flatnonzero(offsets != before + 1).tolist():
            self.gaps.append(Gap(int(before[index]), int(offsets[index])))
        self._last_offset = int(offsets[-1])


def _throws_in_kafka(chunk: Chunk) -> bool:
    if chunk.table.stop is Stop.BAD_MAGIC:
        return True
    if chunk.table.stop is not Stop.BAD_SIZE:
        return False
    at = chunk.table.end_position - chunk.base_position
    return int.from_bytes(chunk.buffer[at + 8 : at + 12], "big", signed=True) < _MIN_RECORD_SIZE
