"""Files that are only read: the calls that they refuse, and a file whose bytes are in memory.

Thread rule: any thread, as in the File protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NoReturn, Self

from tidelog.model import ClosedError
from tidelog.storage.fs.read_only import refuse

if TYPE_CHECKING:
    from typing_extensions import Buffer


class RefusedCalls:
    """The calls of a File without a descriptor that is only read. Each raises ReadOnlyError."""

    __slots__ = ("path",)

    REASON: ClassVar[str]
    has_descriptor = False

    def __init__(self, path: Path) -> None:
        self.path = path

    def pwrite(self, data: Buffer, position: int) -> NoReturn:
        self._refuse("write")

    def pwrite_all(self, parts: Sequence[memoryview], position: int) -> NoReturn:
        self._refuse("write")

    def truncate(self, size: int) -> NoReturn:
        self._refuse("truncate")

    def allocate(self, size: int) -> NoReturn:
        self._refuse("allocate")

    def sync(self) -> NoReturn:
        self._refuse("sync")

    def map(self, size: int) -> NoReturn:
        self._refuse("map")

    def fileno(self) -> NoReturn:
        self._refuse("take the descriptor of")

    def close(self) -> None:
        """Close the file. The call is idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse(self, action: str) -> NoReturn:
        refuse(action, self.path, self.REASON)


class ReadFile(RefusedCalls):
    """The bytes that a file had when it was read. The close frees them."""

    __slots__ = ("_data",)

    REASON = "opened for reading only"

    def __init__(self, path: Path, data: memoryview) -> None:
        super().__init__(path)
        self._data: memoryview | None = data

    @property
    def size(self) -> int:
        return len(self._open_data())

    def pread(self, length: int, position: int) -> bytes:
        return bytes(self._open_data()[position : position + length])

    def pread_into(self, buffer: Buffer, position: int) -> int:
        with memoryview(buffer).cast("B") as view:
            data = self._open_data()[position : position + len(view)]
            view[: len(data)] = data
            return len(data)

    def close(self) -> None:
        self._data = None

    def _open_data(self) -> memoryview:
        if self._data is None:
            raise ClosedError("the file is closed", path=self.path)
        return self._data
