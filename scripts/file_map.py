"""The file map of ARCHITECTURE.md: every source file with the first sentence of what it says about itself.

`make map` writes it again; a test fails while the page and the tree differ.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN = "<!-- file map: written by `make map` -->"
END = "<!-- end of the file map -->"
SUFFIXES = {".py", ".pyx", ".pxd", ".h", ".c"}
NAME_WIDTH = 34
SENTENCE_WIDTH = 110


def opening_words(path: Path) -> str:
    """The docstring of a Python or Cython file, or the comment a C header begins with."""
    text = path.read_text()
    if path.suffix == ".py":
        return ast.get_docstring(ast.parse(text)) or ""
    if path.suffix == ".pyx":
        found = re.search(r'"""(.*?)"""', text, flags=re.DOTALL)
        return found[1] if found else ""
    comment = re.match(r"\s*(?:/\*+(?P<block>.*?)\*/|(?P<lines>(?:\s*(?:#|//)[^\n]*\n)+))", text, flags=re.DOTALL)
    words = (comment["block"] or comment["lines"]) if comment else ""
    return re.sub(r"^\s*(?:\*|#|//) ?", "", words, flags=re.MULTILINE)


def first_sentence(words: str) -> str:
    paragraph = " ".join(words.strip().split("\n\n")[0].split())
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
    entries = [entry for entry in sorted(directory.iterdir()) if entry.name != "__init__.py"]
    for path in (entry for entry in entries if entry.is_file() and entry.suffix in SUFFIXES):
        name = f"{indent}  {path.name}"
        lines.append(f"{name:<{NAME_WIDTH}}{first_sentence(opening_words(path))}".rstrip())
    for path in (entry for entry in entries if entry.is_dir()):
        below = map_lines(path, depth + 1)
        if len(below) > 1 or (path / "__init__.py").exists():
            lines += below
    return lines


def file_map() -> str:
    packages = sorted(path for path in SOURCE.iterdir() if path.is_dir() and path.suffix != ".egg-info")
    return "\n".join(["```", *(line for package in packages for line in map_lines(package)), "```"])


def with_map(page: str) -> str:
    """``page`` with the map between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{file_map()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_map(PAGE.read_text()))
