"""Which topics a member may see: a subscription by a pattern gives it no others. Called by: the group coordinator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

VisibleTopics = Callable[[Iterable[str]], Collection[str]]
"""Those of names that the client may see that sent a request."""


def every_topic(names: Iterable[str]) -> Collection[str]:
    return list(names)
