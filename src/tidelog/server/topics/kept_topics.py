"""The encoded topics of Metadata responses, kept until the metadata changes.

Consumers with a pattern and tools of administrators ask for all topics again and again. With thousands of topics, each
response would take the event loop for tens of milliseconds. Thread rule: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from tidelog.server.metadata.image import MetadataImage

_MOST_KEPT: Final = 8
"""Clients of different versions and listeners get different bytes."""


class KeptTopics:
    def __init__(self) -> None:
        self._image: MetadataImage | None = None
        self._revision = 0
        self._kept: dict[Hashable, bytes] = {}

    def get(self, image: MetadataImage, key: Hashable, encode: Callable[[], bytes]) -> bytes:
        """Return the result of ``encode`` for this image: the kept one, if the image has not changed since.

        ``key`` has everything else that the result depends on.
        """
        if self._image is not image or self._revision != image.revision:
            self._image, self._revision = image, image.revision
            self._kept.clear()
        if key not in self._kept:
            if len(self._kept) == _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = encode()
        return self._kept[key]
