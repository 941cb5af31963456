"""Pack tidelog with its libraries into dist/tidelog.tar.gz for ``spark-submit --archives``.

The files come from the environment that runs this, so they are compiled for its Python and kind of machine. PySpark and
an interpreter are not included. Arguments: names of further distributions to include with their requirements
(``s3fs``).
"""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "dist" / "tidelog.tar.gz"
SOURCES = ("tidelog", "pyspark_tidelog")
FAST = 1
"""Most bytes are compiled libraries, which a higher level hardly compresses better."""


def names_with_needs(names: list[str]) -> list[str]:
    found: dict[str, None] = {}
    pending = [canonicalize_name(name) for name in names]
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found[name] = None
        needs = [Requirement(text) for text in distribution(name).requires or ()]
        pending += [
            canonicalize_name(one.name) for one in needs if one.marker is None or one.marker.evaluate({"extra": ""})
        ]
    return list(found)


def files(names: list[str]) -> Iterator[tuple[Path, str]]:
    """Yield each file with its name in the archive. tidelog's own files come from the sources of the environment."""
    for package in SOURCES:
        for path in sorted((ROOT / "src" / package).rglob("*")):
            if path.suffix in {".py", ".so", ".jar"}:
                yield path, str(path.relative_to(ROOT / "src"))
    for name in names:
        for file in distribution(name).files or ():
            path = Path(file.locate())
            if ".." not in file.parts and "__pycache__" not in file.parts and path.is_file():
                yield path, str(file)


def main() -> None:
    OUTPUT.parent.mkdir(exist_ok=True)
    names = [name for name in names_with_needs(["tidelog", *sys.argv[1:]]) if name != "tidelog"]
    with tarfile.open(OUTPUT, "w:gz", compresslevel=FAST) as archive:
        for path, name in files(names):
            archive.add(path, name)
    print(f"{OUTPUT.relative_to(ROOT)}: tidelog, {', '.join(sorted(names))}; {OUTPUT.stat().st_size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
