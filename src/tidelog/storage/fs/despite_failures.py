"""Go on with the rest when one of many things cannot be done: every file is closed, then the failure is told.

Called by: whoever closes many. Thread rule: the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog.model import StorageError


def each_despite_failures(calls: Iterable[Callable[[], None]]) -> None:
    """Make every call, even if one fails; the first StorageError is raised in the end."""
    first = None
    for call in calls:
        try:
            call()
        except StorageError as error:
            first = first or error
    if first is not None:
        raise first
