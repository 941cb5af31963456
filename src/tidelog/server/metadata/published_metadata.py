"""The image that the broker and its clients see, and the parts of the broker that follow its changes.

A committed change is published in two steps. First the parts prepare for it: they create the logs of a new topic. Then
it is applied to the image and the listeners are notified, in one step of the event loop. So a client never sees a
leader that is not ready. The caller publishes one change after the other.
Thread rule: the event loop only. Source: Kafka's ``MetadataLoader``, ``BrokerMetadataPublisher``.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from tidelog.server.metadata.image import MetadataChange, MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord

Listener = Callable[[MetadataChange], Awaitable[None] | None]
"""A callback for each change. Its awaitable is awaited before the request for the change gets its response. The next
change does not wait for it."""
Preparation = Callable[[MetadataChange], Awaitable[None]]
"""A callback with a change that is on the disk and not yet in the image. The next change waits for it."""

_log: Final = logging.getLogger(__name__)


class PublishedMetadata:
    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.end_offset = 0
        """The offset after the last record of the image."""
        self._listeners: list[Listener] = []
        self._preparations: list[Preparation] = []

    def subscribe(self, listener: Listener, prepare: Preparation | None = None) -> Callable[[], None]:
        """Call ``prepare`` before each change becomes part of the image, and ``listener`` in the step that adds it.
        Both run on the event loop in the order of the changes. Their exceptions are logged. The returned function
        unsubscribes."""
        self._listeners.append(listener)
        if prepare is not None:
            self._preparations.append(prepare)

        def end() -> None:
            self._listeners.remove(listener)
            if prepare is not None:
                self._preparations.remove(prepare)

        return end

    async def publish(self, records: Iterable[MetadataRecord], committed: MetadataChange) -> list[Awaitable[None]]:
        """Publish a change, and return the awaitables of the listeners. ``committed`` has the records' effects on the
        image of all committed records."""
        for prepare in list(self._preparations):
            try:
                await prepare(committed)
            except Exception:
                _log.exception("A listener of the cluster metadata could not prepare for a change")
        change = apply_all(self.image, records, committed.end_offset)
        self.end_offset = committed.end_offset
        return [waiting for listener in list(self._listeners) if (waiting := _notify(listener, change)) is not None]


def apply_all(image: MetadataImage, records: Iterable[MetadataRecord], end_offset: int) -> MetadataChange:
    """Apply ``records``, which end before ``end_offset``, and return their effects."""
    change = MetadataChange(end_offset=end_offset)
    for record in records:
        image.apply(record, change)
    return change


def _notify(listener: Listener, change: MetadataChange) -> Awaitable[None] | None:
    try:
        return listener(change)
    except Exception:
        _log.exception("A listener of the cluster metadata failed")
        return None
