"""A part of a file as a part of an answer: it goes from the file to the socket without passing through memory."""

from __future__ import annotations

from typing import Protocol


class OpenFile(Protocol):
    def fileno(self) -> int: ...


class FileSlice:
    """``length`` bytes of ``file`` from ``position`` on. ``file`` is kept alive until they are sent, and stays open."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: OpenFile, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length


Part = bytes | bytearray | memoryview | FileSlice
