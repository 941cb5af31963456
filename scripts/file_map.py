"""Write docs/file-map.md: every source file with the first sentence of its docstring.

`make map` runs this. A test fails while the page and the tree differ.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "file-map.md"
HEAD = """\
# File map

Every source file below `src`, with the first sentence of its docstring. `make map` writes this page.
[ARCHITECTURE.md](../ARCHITECTURE.md) explains how the files work together.
"""
SUFFIXES = {".py", ".pyx", ".pxd", ".h", ".c", ".java"}
NAME_WIDTH = 34
SENTENCE_WIDTH = 110


def opening_words(path: Path) -> str:
    """Return the docstring of a Python or Cython file, or the first comment of a C header or a Java file."""
    text = path.read_text()
    if path.suffix == ".py":
        return ast.get_docstring(ast.parse(text)) or ""
    if path.suffix == ".pyx":
        found = re.search(r'"""(.*?)"""', text, flags=re.DOTALL)
        return found[1] if found else ""
    if path.suffix == ".java":
        text = text[text.find("/**") :]
    comment = re.match(r"\s*(?:/\*+(?P<block>.*?)\*/|(?P<lines>(?:\s*(?:#|//)[^\n]*\n)+))", text, flags=re.DOTALL)
    words = (comment["block"] or comment["lines"]) if comment else ""
    return re.sub(r"^\s*(?:\*|#|//) ?", "", words, flags=re.MULTILINE)


def first_sentence(words: str) -> str:
    paragraph = " ".join(re.sub(r"\{@\w+ (.*?)\}", r"`\1`", words).strip().split("\n\n")[0].split())
    sentence = re.split(r"(?<=\.)\s", paragraph)[0].rstrip(".:")
    if len(sentence) > SENTENCE_WIDTH:
        cut = max(sentence.rfind(mark, 0, SENTENCE_WIDTH) for mark in (": ", "; ", ", ", " ("))
        sentence = sentence[:cut] if cut > 0 else sentence[:SENTENCE_WIDTH]
    return sentence


def map_lines(directory: Path, depth: int = 0) -> list[str]:
    package = directory / "__init__.py"
    indent = "  " * depth
    name = f"{indent}{directory.name}/"
    lines = [f"{name:<{NAME_WIDTH}}{first_sentence(opening_words(package)) if package.exists() else ''}".rstrip()]
    for path in (path for path in source_files(directory) if path.name != "__init__.py"):
        name = f"{indent}  {path.name}"
        lines.append(f"{name:<{NAME_WIDTH}}{first_sentence(opening_words(path))}".rstrip())
    for path in (entry for entry in sorted(directory.iterdir()) if entry.is_dir()):
        below = map_lines(path, depth + 1)
        if len(below) > 1 or (path / "__init__.py").exists():
            lines += below
    return lines


def page() -> str:
    """Return the whole page: a section for each package of the first and second level."""
    lines = [HEAD]
    for package in sorted(path for path in SOURCE.iterdir() if path.is_dir() and path.suffix != ".egg-info"):
        shown = source_files(package) or sorted(package.rglob("*.java"))
        files = [f"{path.name:<{NAME_WIDTH}}{first_sentence(opening_words(path))}" for path in shown]
        lines += [f"## {package.name}", "```", *files, "```", ""]
        for room in sorted(path for path in package.iterdir() if (path / "__init__.py").exists()):
            lines += [f"## {package.name}/{room.name}", "```", *map_lines(room), "```", ""]
    return "\n".join(lines)


def source_files(directory: Path) -> list[Path]:
    return [path for path in sorted(directory.iterdir()) if path.is_file() and path.suffix in SUFFIXES]


if __name__ == "__main__":
    PAGE.write_text(page())
