"""The history of a run in Kafka's words: a line for each event that matters.

A run without a reader keeps no lines, because building them would take most of its time: ``note`` gets a format and its
values, and formats them only if the history is kept.
"""

from __future__ import annotations

TOPIC = "t"


class History:
    __slots__ = ("is_kept", "lines", "step")

    def __init__(self, *, is_kept: bool) -> None:
        self.is_kept = is_kept
        self.step = 0
        self.lines: list[tuple[int, str]] = []

    def begin(self) -> None:
        """Begin at step 0, without the lines so far."""
        self.step, self.lines = 0, []

    def note(self, text: str, *values: object) -> None:
        """Add a line. ``text`` is a format for ``values``."""
        if self.is_kept:
            self.lines.append((self.step, text.format(*values)))

    def text(self) -> str:
        return "\n".join(f"{step:4}  {line}" for step, line in self.lines)


def name_of(partition: int) -> str:
    """Return the name of a partition: ``t-0``."""
    return f"{TOPIC}-{partition}"


def listed(brokers: object) -> str:
    """Return broker ids as Kafka's tools show them: ``1,2,3``."""
    assert isinstance(brokers, tuple | list | set | frozenset), brokers
    return ",".join(map(str, sorted(brokers))) or "none"
