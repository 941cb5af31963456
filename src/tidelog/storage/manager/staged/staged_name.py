"""The names of staged files. The functions are pure: text in, values out.

::

    .tidelog-staged~QUERY~BATCH~WRITER~NUMBER

The files are in the log directory itself, because brokers ignore files there but refuse to start with unknown
directories. QUERY owns them. BATCH is the number of a stream's batch, or ``once``. WRITER is one attempt to write a
part of the batch, and NUMBER counts its files. The writer reports a file's partition separately, because a topic name
may be as long as a file name.

QUERY and WRITER are ASCII letters, digits, dots, dashes and underscores.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Self

PREFIX = ".tidelog-staged~"
_ONCE = "once"
_QUERY = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
_NAME = re.compile(
    re.escape(PREFIX) + r"([A-Za-z0-9._-]{1,100})~(once|0|[1-9][0-9]{0,18})~([A-Za-z0-9._-]{1,64})~([0-9]{1,9})",
    re.ASCII,
)


class StagedName(NamedTuple):
    query: str
    batch: int | None
    """None if the file belongs to no stream."""
    writer: str
    number: int

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Parse a file name. Return None for another form."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        query, batch, writer, number = found.groups()
        return cls(query, None if batch == _ONCE else int(batch), writer, int(number))

    def __str__(self) -> str:
        batch = _ONCE if self.batch is None else self.batch
        return f"{PREFIX}{self.query}~{batch}~{self.writer}~{self.number}"


def is_query_id(text: str) -> bool:
    return _QUERY.fullmatch(text) is not None
