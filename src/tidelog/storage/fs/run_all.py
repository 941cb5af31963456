"""Running many calls although some fail, such as closing every file before an error is raised.

Thread rule: the caller's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog.model import StorageError


def run_all(calls: Iterable[Callable[[], None]]) -> None:
    """Make every call, even if one raises StorageError. Raise the first of these errors at the end."""
    first = None
    for call in calls:
        try:
            call()
        except StorageError as error:
            first = first or error
    if first is not None:
        raise first
