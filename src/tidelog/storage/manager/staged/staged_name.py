"""Names of staged files. Pure: text in, values out.

::

    .tidelog-staged~QUERY~BATCH~WRITER~NUMBER

They lie in the log directory itself, for brokers pass over files there, and refuse to start on directories that they do
not know. QUERY is whose they are, BATCH the number of a stream's batch, or ``once``; WRITER is one attempt to write a
part of it, NUMBER counts its files. For which partition a file is, its writer reports: a topic's name may be as long as
a file's.

QUERY and WRITER are ASCII letters, digits, dots, dashes and underscores. Called by: writers of staged files, commits.
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
    """None: not of a stream."""
    writer: str
    number: int

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """None where ``name`` is not of that form."""
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
