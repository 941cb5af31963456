"""Count the subjects of the house rules: sizes of files and functions, folders that import each other, lines.

``python scripts/structure.py [ROOT]`` prints a table for this tree, or for another one of the project. A folder's
modules are its own files, without those of the folders below. Two folders are a pair if each imports the other
directly.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = (".py", ".pyx", ".pyi")
LONG_FUNCTION = 50
Pair = tuple[str, str]


@dataclass(frozen=True)
class Tree:
    """A checkout of the project."""

    root: Path

    @cached_property
    def texts(self) -> dict[Path, str]:
        """The text of each source file of the package, by its path in src."""
        source = self.root / "src"
        paths = (path for suffix in SUFFIXES for path in source.rglob(f"*{suffix}"))
        return {path.relative_to(source): path.read_text() for path in sorted(paths)}

    @cached_property
    def modules(self) -> dict[Path, ast.Module]:
        """The parsed Python files among them."""
        return {path: ast.parse(text) for path, text in self.texts.items() if path.suffix == ".py"}

    @cached_property
    def source_lines(self) -> int:
        return sum(_line_count(text) for text in self.texts.values())

    @cached_property
    def test_lines(self) -> int:
        return sum(_line_count(path.read_text()) for path in (self.root / "tests").rglob("*.py"))

    @cached_property
    def pairs(self) -> list[Pair]:
        """The pairs of folders that import each other, as dotted names."""
        folders = {".".join(path.parent.parts) for path in self.modules}
        edges = set[Pair]()
        for path, module in self.modules.items():
            own = ".".join(path.parent.parts)
            edges |= {(own, self._folder(name, folders)) for name in _imported_names(module)}
        return sorted((one, other) for one, other in edges if one < other and (other, one) in edges)

    def counts(self) -> dict[str, str]:
        """Return the rows of the table."""
        functions = [_line_count_of(node) for module in self.modules.values() for node in _functions(module)]
        sizes = [_line_count(text) for path, text in self.texts.items() if path.name != "__init__.py"]
        largest = max(self.texts, key=lambda path: _line_count(self.texts[path]))
        words = chain.from_iterable(re.findall(r"\bAny\b", text) for text in self.texts.values())
        return {
            "files of src": f"{len(self.texts):,}",
            "median lines of a file": f"{statistics.median(sizes):.0f}",
            "largest file": f"{_line_count(self.texts[largest])} ({largest})",
            f"functions over {LONG_FUNCTION} lines": str(sum(size > LONG_FUNCTION for size in functions)),
            "files with one function and no class": str(sum(map(_is_one_function, self.modules.values()))),
            "packages": str(sum(path.name == "__init__.py" for path in self.modules)),
            "pairs of folders that import each other": str(len(self.pairs)),
            "`Any` in src": f"{sum(1 for _ in words):,}",
            "lines of src": f"{self.source_lines:,}",
            "lines of tests": f"{self.test_lines:,}",
        }

    def _folder(self, name: str, folders: set[str]) -> str:
        """Return the folder of an imported name: a module's, or the package's itself."""
        while name and name not in folders:
            parent = name.rpartition(".")[0]
            if Path(*name.split(".")).with_suffix(".py") in self.modules:
                return parent
            name = parent
        return name


def _line_count(text: str) -> int:
    return text.count("\n")


def _functions(module: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _line_count_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _is_one_function(module: ast.Module) -> bool:
    defined = [node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    return len(defined) == 1 and not isinstance(defined[0], ast.ClassDef)


def _imported_names(module: ast.Module) -> Iterable[str]:
    """Return the names of the package that a module imports, anywhere in it."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("tidelog"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidelog"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def main() -> None:
    tree = Tree(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    print("| count | value |\n|---|---:|")
    for name, value in tree.counts().items():
        print(f"| {name} | {value} |")
    print()
    for one, other in tree.pairs:
        print(f"{one} <-> {other}")


if __name__ == "__main__":
    main()
