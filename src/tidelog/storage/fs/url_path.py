"""URLs of object storage as paths, such as ``s3://bucket/backup``. Readers accept them as a Path.

A URL differs from a path by ``://``, as in fsspec. A UrlPath is a Path whose text keeps both slashes. It is always
absolute and means nothing to the operating system. The functions are pure.
"""

from __future__ import annotations

import os
from pathlib import Path, PosixPath
from typing import Self

_MARK = "://"


class UrlPath(PosixPath):
    def __str__(self) -> str:
        head, _, rest = super().__str__().partition("/")
        return f"{head}//{rest}" if head.endswith(":") else super().__str__()

    def absolute(self) -> Self:
        return self

    def resolve(self, strict: bool = False) -> Self:
        return self


def path_of(given: str | os.PathLike[str]) -> Path:
    """Return a path of this machine, or a UrlPath."""
    if isinstance(given, Path):
        return given
    text = os.fspath(given)
    return UrlPath(text) if is_url(text) else Path(text)


def is_url(text: str) -> bool:
    return _MARK in text
