"""Damaged log directories: small copies of golden directories, with wrong bytes, wrong files and wrong names.

``damage_directories(seed, ...)`` depends on its arguments only, so a failure can be repeated by its seed. Some batches
and producer snapshots get a valid CRC again, so that their wrong bytes reach the readers of records.
"""

from __future__ import annotations

import os
import random
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from golden_sets import CLUSTER, EVERYTHING, FORMATS, UNCLEAN_ELECTION, ZOOKEEPER
from tidelog.kernel import crc32c

BASES = {
    "killed": (EVERYTHING["4.4"], "unclean", ("",)),
    "clean": (EVERYTHING["4.4"], "clean", ("",)),
    "cluster": (CLUSTER, UNCLEAN_ELECTION, ("broker1", "broker2", "broker3")),
    "zookeeper": (ZOOKEEPER, "clean", ("disk1", "disk2")),
    "old-formats": (FORMATS, "clean", ("",)),
}
"""The golden directories that are damaged: set, kind and parts."""
_OTHER_LOGS = 3
"""The logs of a directory that a copy has, apart from those of internal topics."""
_PREALLOCATED_BYTES = 2400
"""The size to which indexes shrink that a broker allocated in advance."""

NUMBERS = (0, 1, -1, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**63 - 1, -(2**63), 10**12, 1_700_000_000_000)
TEXTS = (
    "-1",
    "0",
    "00",
    "+1",
    "1.5",
    "1e9",
    "NaN",
    "0x10",
    "9" * 19,
    "9" * 30,
    "9" * 5000,
    "-" + "9" * 19,
    "\u0663",
    "",
)
NOT_UTF8 = (b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\x80" * 50, b"\xfe\xff\x00a")
ODD_NAMES = (
    *(
        b"\xff\xfe-0",
        b"a\nb-0",
        b"<img src=x onerror=alert(1)>-0",
        b"t'\"&-0",
        "\u202e\U0001f600-0".encode(),
        b"-0",
        b"t--1",
    ),
    *(
        b"t-007",
        b"t-2147483648",
        b"t-" + b"9" * 200,
        b"x" * 253 + b"-0",
        b".-0",
        b"..-0",
        b"t-0.-delete",
        b"t-0.x-delete",
    ),
    *(b"t-0." + b"f" * 32 + b"-future", b"t-0." + b"f" * 32 + b"-stray", b" ", b"-", b"t-0.json", b"%2e%2e-0"),
    *(
        b"t-0.x-delete",
        b"99999999999999999999.log",
        b"00000000000000000000.log ",
        b"00000000000000000007.log",
        b"0.log",
    ),
    *(b"00000000000000000009.snapshot", b"00000000000000000000.log.swap", b"00000000000000000003.index.cleaned"),
    *(b"09223372036854775807.log", b"00000000000000000000-0000000000.checkpoint", b"meta.properties.tmp"),
    *(
        b"99999999999999999999-9999999999.checkpoint",
        b"remote_log_snapshot",
        b"leader-epoch-checkpoint.tmp",
        b"\x1b[2J",
    ),
)
_HEADER = {"base offset": (0, "q"), "length": (8, "i"), "epoch": (12, "i"), "magic": (16, "b"), "CRC": (17, "I")}
_COVERED = {
    "attributes": (21, "h"),
    "last offset": (23, "i"),
    "first timestamp": (27, "q"),
    "last timestamp": (35, "q"),
    "producer": (43, "q"),
    "producer epoch": (51, "h"),
    "sequence": (53, "i"),
    "count": (57, "i"),
}
"""Fields of a batch: position and format of ``struct``. The CRC covers the second group."""
_COVERED_FROM = 21
_INDEXES = (".index", ".timeindex", ".txnindex")


@dataclass(frozen=True)
class Golden:
    """The files of a golden directory, read once. A path is relative, and its first part is the log directory."""

    files: Mapping[str, bytes]

    @classmethod
    def read(cls, path: Path, parts: Sequence[str]) -> Golden:
        return cls(
            {
                f"{number}/{file.relative_to(path / part)}": _shrunk(file.name, file.read_bytes())
                for number, part in enumerate(parts)
                for file in sorted((path / part).rglob("*"))
                if file.is_file() and file.name != ".lock"
            }
        )

    def write(self, root: Path, chance: random.Random) -> list[Path]:
        """Write a small part of the directories below ``root``, and return their paths."""
        logs = sorted({name.split("/")[1] for name in self.files if name.count("/") > 1})
        kept = {one for one in logs if one.startswith("__")} if chance.random() < 0.7 else {"__cluster_metadata-0"}
        kept.update(chance.sample([one for one in logs if one not in kept], _OTHER_LOGS))
        for name, content in self.files.items():
            if name.count("/") < 2 or name.split("/")[1] in kept:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_bytes(content)
        return sorted(root.iterdir())


def _shrunk(name: str, content: bytes) -> bytes:
    return content[:_PREALLOCATED_BYTES] if name.endswith(_INDEXES) else content


@dataclass
class Damaged:
    """``paths`` are the log directories. ``done`` has a clause for each damage, and ``touched`` its files."""

    root: Path
    paths: Sequence[Path]
    done: list[str] = field(default_factory=list)
    touched: list[Path] = field(default_factory=list)

    def logs(self) -> list[tuple[int, str]]:
        """Return the damaged logs: the number of the log directory, and the name."""
        parts = [path.relative_to(self.root).parts for path in self.touched]
        return list(dict.fromkeys((int(one[0]), one[1]) for one in parts if len(one) > 2))


def damage_directories(seed: int, golden: Golden, root: Path) -> Damaged:
    """Write directories below ``root``, which is new, and damage one to six places."""
    chance = random.Random(seed)
    damaged = Damaged(root, golden.write(root, chance))
    for _ in range(chance.choice((1, 1, 2, 2, 3, 6))):
        file = _chosen(chance, root)
        if file is not None:
            damage = chance.choice(_fitting(file))
            name = os.fsencode(file.relative_to(root)).decode("ascii", "backslashreplace")
            damaged.done.append(f"{damage.__name__.lstrip('_')} {name}")
            damaged.touched.append(file)
            damage(chance, file)
    return damaged


def _chosen(chance: random.Random, root: Path) -> Path | None:
    """Return a file to damage. The small files of a log directory are as likely as those of logs."""
    files = [one for one in sorted(root.rglob("*")) if one.is_file() and not one.is_symlink()]
    by_kind: dict[str, list[Path]] = {}
    for one in files:
        is_metadata = one.parent.name.startswith("__cluster")
        by_kind.setdefault(f"{is_metadata} {one.suffix if one.stem.isdigit() else one.name}", []).append(one)
    return chance.choice(by_kind[chance.choice(sorted(by_kind))]) if by_kind else None


Damage = Callable[[random.Random, Path], None]


def _fitting(file: Path) -> Sequence[Damage]:
    """Return the kinds of damage for a file. Those of its content are as likely as all others."""
    if file.suffix in (".log", ".checkpoint", ".deleted") and file.stem[:1].isdigit():
        own: tuple[Damage, ...] = (_header_field, _covered_field, _sealed_bytes, _sealed_bytes, _any_bytes)
    elif file.suffix == ".snapshot":
        own = (_sealed_snapshot, _sealed_snapshot, _any_bytes)
    elif file.suffix in _INDEXES:
        own = (_words, _any_bytes)
    else:
        own = (_number_in_text, _number_in_text, _lines, _not_utf8, _long_line, _any_bytes)
    other = (_missing, _directory_in_place, _link, _fifo, _swapped, _odd_name, _odd_directory, _file_in_place, _renamed)
    return [*own * len(other), *other * len(own)]


def _any_bytes(chance: random.Random, file: Path) -> None:
    """Flip, truncate, remove, insert, repeat or overwrite bytes."""
    content = bytearray(file.read_bytes())
    at = chance.randrange(len(content) + 1)
    end = min(len(content), at + chance.choice((1, 4, 61, 500, 10**6)))
    match chance.randrange(9):
        case 0:
            for _ in range(chance.choice((1, 1, 3, 40))):
                if content:
                    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        case 1:
            del content[at:]
        case 2:
            del content[at:end]
        case 3:
            content[at:at] = chance.randbytes(chance.choice((1, 7, 300)))
        case 4:
            content[at:end] = bytes(end - at)
        case 5:
            content[at:at] = content[at:end]
        case 6:
            content += chance.choice((bytes(5000), chance.randbytes(200), content[:200]))
        case 7:
            content = bytearray(chance.randbytes(chance.choice((1, 100, 5000))))
        case _:
            content.clear()
    file.write_bytes(content)


def _batches(content: bytearray) -> list[tuple[int, int]]:
    """Return start and end of the batches, as far as their lengths are right."""
    found, at = [], 0
    while at + 61 <= len(content):
        end = at + 12 + int(struct.unpack_from(">i", content, at + 8)[0])
        if end < at + 61 or end > len(content):
            break
        found.append((at, end))
        at = end
    return found


def _set(chance: random.Random, content: bytearray, at: int, form: str) -> None:
    size = struct.calcsize(form)
    number = chance.choice((*NUMBERS, chance.getrandbits(64), chance.randrange(20)))
    content[at : at + size] = (number % 256**size).to_bytes(size, "big")


def _header_field(chance: random.Random, file: Path) -> None:
    content = bytearray(file.read_bytes())
    for at, _ in chance.choices(_batches(content) or [(0, 0)]):
        _set(chance, content, at + _HEADER[(name := chance.choice(list(_HEADER)))][0], _HEADER[name][1])
    file.write_bytes(content)


def _covered_field(chance: random.Random, file: Path) -> None:
    """Change a field, and write a valid CRC."""
    content = bytearray(file.read_bytes())
    for at, end in chance.choices(_batches(content) or [(0, 0)]):
        position, form = _COVERED[chance.choice(list(_COVERED))]
        _set(chance, content, at + position, form)
        _seal(content, at, end)
    file.write_bytes(content)


def _sealed_bytes(chance: random.Random, file: Path) -> None:
    """Change bytes of records, and write a valid CRC."""
    content = bytearray(file.read_bytes())
    for at, end in chance.sample(found := _batches(content), min(len(found), chance.choice((1, 3, 1000)))):
        for _ in range(chance.choice((1, 1, 4))):
            if end > at + 61:
                place = chance.randrange(at + 61, end)
                content[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, content[place] ^ 1 << chance.randrange(8)))
        _seal(content, at, end)
    file.write_bytes(content)


def _seal(content: bytearray, at: int, end: int) -> None:
    if end:
        struct.pack_into(">I", content, at + 17, crc32c(bytes(content[at + _COVERED_FROM : end])))


def _sealed_snapshot(chance: random.Random, file: Path) -> None:
    """Change bytes of a producer snapshot, and write a valid CRC."""
    content = bytearray(file.read_bytes())
    for _ in range(chance.choice((1, 3))):
        if len(content) > 10:
            _set(chance, content, chance.randrange(6, len(content) - 3), chance.choice(("h", "i")))
    if len(content) >= 6:
        struct.pack_into(">I", content, 2, crc32c(bytes(content[6:])))
    file.write_bytes(content)


def _words(chance: random.Random, file: Path) -> None:
    """Write wrong numbers into entries of an index."""
    content = bytearray(file.read_bytes())
    for _ in range(chance.choice((1, 2, 10))):
        _set(chance, content, 4 * chance.randrange(len(content) // 4 + 1), chance.choice("iq"))
    file.write_bytes(content)


def _number_in_text(chance: random.Random, file: Path) -> None:
    content = file.read_bytes()
    found = list(re.finditer(rb"-?[0-9]+", content))
    for one in chance.sample(found, min(len(found), 1)):
        number = chance.choice((*TEXTS, *map(str, NUMBERS)))
        content = content[: one.start()] + number.encode() + content[one.end() :]
    file.write_bytes(content)


def _lines(chance: random.Random, file: Path) -> None:
    """Remove, repeat, move or replace lines, or their ends."""
    lines = file.read_bytes().split(b"\n")
    at = chance.randrange(len(lines))
    match chance.randrange(7):
        case 0:
            del lines[at]
        case 1:
            lines[at:at] = lines[at:] * chance.choice((1, 50))
        case 2:
            chance.shuffle(lines)
        case 3:
            lines[at] = chance.choice(
                (b"\0", b"a b c", b"a b c d e", b"[" * 100_000, b'{"a":' * 20_000, b"\\u00", b"=", b"\r")
            )
        case 4:
            lines = [line + b"\r" for line in lines]
        case 5:
            lines[at] = lines[at][::-1]
        case _:
            lines = [b" ".join(lines)]
    file.write_bytes(b"\n".join(lines))


def _not_utf8(chance: random.Random, file: Path) -> None:
    content = file.read_bytes()
    at = chance.randrange(len(content) + 1)
    file.write_bytes(content[:at] + chance.choice(NOT_UTF8) + content[at + chance.randrange(3) :])


def _long_line(chance: random.Random, file: Path) -> None:
    content = file.read_bytes()
    at = chance.randrange(len(content) + 1)
    file.write_bytes(content[:at] + chance.choice((b"x", b"9", b" ", b"\\", b"\xff")) * 300_000 + content[at:])


def _missing(_chance: random.Random, file: Path) -> None:
    file.unlink()


def _directory_in_place(chance: random.Random, file: Path) -> None:
    file.unlink()
    file.mkdir()
    if chance.random() < 0.5:
        (file / file.name).write_bytes(b"inside")


def _file_in_place(chance: random.Random, file: Path) -> None:
    """Replace the directory of a log by a file. The log directory itself stays."""
    if file.parent.name.isdigit():
        file.write_bytes(chance.randbytes(10))
        return
    moved = file.parent.with_name("moved")
    file.parent.rename(moved if not moved.exists() else moved.with_name(f"moved{chance.getrandbits(32)}"))
    file.parent.write_bytes(b"a file")


def _link(chance: random.Random, file: Path) -> None:
    """Replace a file by a link that dangles, leads to itself, to a directory, to a device or to another file."""
    others = [one for one in sorted(file.parent.iterdir()) if one != file] or [file]
    target = chance.choice(
        (Path("nowhere"), file, Path("."), Path(".."), Path("/dev/zero"), Path("/dev/null"), *others[:3])
    )
    file.unlink()
    file.symlink_to(target)


def _fifo(_chance: random.Random, file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _swapped(chance: random.Random, file: Path) -> None:
    """Exchange the content with another file."""
    others = [one for one in sorted(file.parent.parent.rglob("*")) if one.is_file() and not one.is_symlink()]
    other = chance.choice(others)
    content = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(content)


def _odd_name(chance: random.Random, file: Path) -> None:
    """Add a file with an odd name."""
    odd = _named(file.parent, chance.choice(ODD_NAMES))
    if not odd.exists():
        odd.write_bytes(chance.choice((b"", file.read_bytes(), chance.randbytes(100))))


def _odd_directory(chance: random.Random, file: Path) -> None:
    """Add a directory with an odd name, and sometimes the file in it."""
    odd = _named(file.parent, chance.choice(ODD_NAMES))
    if not odd.exists():
        odd.mkdir()
        if chance.random() < 0.7:
            (odd / file.name).write_bytes(file.read_bytes())


def _renamed(chance: random.Random, file: Path) -> None:
    """Rename a file to an odd name, or to that of another segment."""
    digits = f"{chance.choice((1, 5, 2**31, 2**62)):020d}{file.suffix}".encode()
    odd = _named(file.parent, chance.choice((digits, *ODD_NAMES)))
    if not odd.exists():
        file.rename(odd)


def _named(directory: Path, name: bytes) -> Path:
    return directory / os.fsdecode(name)
