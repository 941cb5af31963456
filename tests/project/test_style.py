"""The house rules that a machine can see: sizes, names, no loose ends, nothing of the machine it was written on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from project.tree import ROOT, project_files, python_files, source_files

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
BINARY_SUFFIXES = {".gz", ".png", ".parquet", ".jar"}
LOOSE_ENDS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\bNotImplementedError|pragma: no cover")
BARE_IGNORE = re.compile(r"type: ignore(?!\[)")
SKIPPED = re.compile(r"pytest\.mark\.(skip|xfail)\b(?!if)")
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "misc", "tools_util"}
MACHINE = re.compile(
    r"(?<![\w.])/(?:home|Users|root)/\w"
    r"|(?<![\w./])/(?:work|opt)/(?!kafka)\w"
    r"|files\.pythonhosted\.org|pypi\.org/simple"
)


def text_files() -> Iterable[tuple[Path, str]]:
    """Every text file but this one, which has to name what it looks for."""
    for path in project_files():
        if path.suffix not in BINARY_SUFFIXES and ROOT / path != Path(__file__):
            yield path, (ROOT / path).read_text(errors="replace")


def test_no_source_file_is_long() -> None:
    long = {path: n for path in source_files() if (n := len((ROOT / path).read_text().splitlines())) > MAX_FILE_LINES}
    assert not long


def test_no_function_is_long() -> None:
    long = [
        f"{path}:{node.lineno} {node.name}: {lines} lines"
        for path in python_files()
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert not long


def test_no_loose_ends() -> None:
    found = [
        f"{path}:{number}: {line.strip()}"
        for path, text in text_files()
        if path.suffix in {".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".java", ".sh", ".toml"}
        for number, line in enumerate(text.splitlines(), 1)
        if LOOSE_ENDS.search(line) or BARE_IGNORE.search(line) or SKIPPED.search(line)
    ]
    assert not found


def test_names_say_what_a_file_is() -> None:
    assert not [path for path in project_files() if path.stem.lstrip("_") in VAGUE_NAMES]


def test_every_module_opens_with_its_contract() -> None:
    bare = [
        path
        for path in python_files()
        if path.parts[0] == "src" and not ast.get_docstring(ast.parse((ROOT / path).read_text()))
    ]
    assert not bare


def test_packages_only_re_export() -> None:
    """An ``__init__`` holds a docstring, imports and ``__all__``; the root's may resolve its names lazily (PEP 562)."""
    allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr, ast.If)
    root_only = (ast.FunctionDef,)
    found = [
        f"{path}:{node.lineno}"
        for path in python_files()
        if path.name == "__init__.py" and path.parts[0] == "src"
        for node in ast.parse((ROOT / path).read_text()).body
        if not isinstance(node, allowed)
        and not (isinstance(node, root_only) and node.name in ("__getattr__", "__dir__"))
    ]
    assert not found


def test_nothing_names_a_machine_or_a_registry() -> None:
    found = [
        f"{path}:{number}: {line.strip()[:100]}"
        for path, text in text_files()
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE.search(line)
    ]
    assert not found
