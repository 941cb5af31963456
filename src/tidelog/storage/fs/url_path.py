"""Addresses of object storage as paths, ``s3://bucket/backup``: what readers take as a Path, they take there too.

A path is told from an address by ``://``, as fsspec does. A UrlPath is a Path but for its text, which keeps both
slashes; it is absolute as it stands, and means nothing to the operating system. Pure. Called by: whoever takes a path
from a user.
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
    """A path of this machine, or a UrlPath."""
    if isinstance(given, Path):
        return given
    text = os.fspath(given)
    return UrlPath(text) if is_url(text) else Path(text)


def is_url(text: str) -> bool:
    return _MARK in text
