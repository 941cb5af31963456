"""The ``dump`` report: every file kind as JSON objects that programs can parse, one per line.

Each object has ``file`` (the path as given) and ``type`` first. A log has the types ``record``, ``batch`` and
``trailing_bytes``, and any file may have an ``error``. ``json_files`` has the types of the other files. The file name
determines the kind. Files being added or removed (``.deleted``, ``.cleaned``, ``.swap``) are read like live ones.
The directory name determines the decoder of internal topics' records. The module only reads. Thread rule: one thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tidelog.inspect.dump.json_files import BY_NAME, BY_SUFFIX
from tidelog.inspect.dump.json_log import error_json, log_json
from tidelog.inspect.dump.json_payload import Json
from tidelog.inspect.dump.options import PayloadDecoder, choose_payload_decoder
from tidelog.model import TidelogError, UnsupportedFormatError
from tidelog.storage.fs import BY_PATH, FileSystem, ReadOnlyFileSystem, path_of, read_whole
from tidelog.storage.segment.file_names import FileState

_STATES = tuple(state.value for state in FileState if state.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonOptions:
    """``batches`` yields one object per batch instead of per record. ``decoder`` None chooses by the directory's name.
    ``max_bytes`` excludes batches that end after that position."""

    batches: bool = False
    decoder: PayloadDecoder | None = None
    max_bytes: int | None = None


def dump_json(
    paths: Iterable[str | os.PathLike[str]], options: JsonOptions | None = None, *, fs: FileSystem = BY_PATH
) -> Iterator[Json]:
    """Yield the objects of all files, in the order of ``paths``. Missing files and bad contents never raise. They
    become an object of type ``error`` with ``message``, ``position`` and ``offset`` (null if they do not apply)."""
    reader = ReadOnlyFileSystem(fs)
    for given in paths:
        shown = os.fspath(given)
        try:
            for row in _file_objects(reader, path_of(shown), options or JsonOptions()):
                yield {"file": shown, **row}
        except TidelogError as error:
            yield {"file": shown, **error_json(error)}


def _file_objects(fs: FileSystem, path: Path, options: JsonOptions) -> Iterator[Json]:
    name = path.name
    for state in _STATES:
        name = name.removesuffix(state)
    suffix = Path(name).suffix
    if suffix in (".log", ".checkpoint"):
        with fs.open(path) as file:
            yield from log_json(
                file, batches=options.batches, decoder=_decoder(path, suffix, options), max_bytes=options.max_bytes
            )
        return
    function = BY_NAME.get(name) or BY_SUFFIX.get(suffix)
    if function is None:
        raise UnsupportedFormatError("the file's name is of no known kind", path=path)
    yield from function(read_whole(fs, path), path, _base_offset(name))


def _decoder(path: Path, suffix: str, options: JsonOptions) -> PayloadDecoder:
    if options.decoder is not None:
        return options.decoder
    if suffix == ".checkpoint":
        return PayloadDecoder.CLUSTER_METADATA
    return choose_payload_decoder(path.absolute().parent.name)


def _base_offset(name: str) -> int:
    number = name.split(".")[0]
    return int(number) if number.isascii() and number.isdigit() else 0
