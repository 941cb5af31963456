"""What many logs hold, as a dict of lists: the model that the state machine holds the manager against."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.model import TopicPartition


@dataclass(slots=True)
class ModelLog:
    """Of one partition. ``flushed``: whatever happens, nothing below it is lost."""

    written: dict[int, bytes] = field(default_factory=dict)
    """Offset -> value, of records below the log start too: a crash may bring them back."""
    batches: list[int] = field(default_factory=list)
    """Base offsets."""
    start: int = 0
    end: int = 0
    flushed: int = 0
    epoch: int = 0

    @property
    def values(self) -> list[tuple[int, bytes]]:
        return [(offset, value) for offset, value in sorted(self.written.items()) if offset >= self.start]

    def append(self, values: list[bytes]) -> None:
        self.batches.append(self.end)
        for value in values:
            self.written[self.end] = value
            self.end += 1

    def truncate(self, offset: int) -> None:
        self.end = min(self.end, offset)
        self.start = min(self.start, self.end)
        self.flushed = min(self.flushed, self.end)
        self._forget()

    def begin_at(self, offset: int) -> None:
        self.written.clear()
        self.batches.clear()
        self.start = self.end = self.flushed = offset

    def adopt(self, start: int, end: int, found: dict[int, bytes]) -> None:
        """What a crash left of it, after it was checked: what was not flushed may be missing in between too."""
        below = {offset: value for offset, value in self.written.items() if offset < start}
        self.start, self.end, self.written = start, end, below | found
        self._forget()

    def _forget(self) -> None:
        self.written = {offset: value for offset, value in self.written.items() if offset < self.end}
        self.batches = [base for base in self.batches if base < self.end]


Model = dict[TopicPartition, ModelLog]
