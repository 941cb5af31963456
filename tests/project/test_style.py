"""The house rules that a machine can see: sizes, names, no loose ends, nothing of the machine it was written on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from project.tree import ROOT, project_files, python_files, source_files

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
CODE_SUFFIXES = {".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".java", ".sh", ".toml"}
BINARY_SUFFIXES = {".gz", ".png", ".parquet", ".jar"}
LOOSE_ENDS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\bNotImplementedError|pragma: no cover")
BARE_IGNORE = re.compile(r"type: ignore(?!\[)")
SKIPPED = re.compile(r"pytest\.mark\.(skip|xfail)\b(?!if)")
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "misc", "tools_util"}
ABSOLUTE = re.compile(
    r"(?<![\w.*})\]~/$-])/(?:home|Users|root|work|opt|srv|mnt|media|tmp|nix|usr|var|etc|workspace)(?:/[\w.*-]+)+/?"
)
KAFKA_PATHS = ("/tmp/kafka-logs", "/usr/bin/kinit")
"""Defaults of Kafka's configuration."""
EXAMPLE_PATHS = (
    "/var/lib/kafka",
    "/var/lib/kaf*",
    "/var/lib/",
    "/mnt/disk",
    "/tmp/events",
    "/usr/bin/env",
    *KAFKA_PATHS,
)
"""Paths in examples and in the first line of scripts, and Kafka's."""
URL = re.compile(r"\bhttps?://([\w.-]+)")
HOSTS = {"www.apache.org", "maven.apache.org", "kafka.apache.org", "cwiki.apache.org", "issues.apache.org"} | {
    "github.com",
    "keepachangelog.com",
    "www.w3.org",
    "semver.org",
    "127.0.0.1",
    "localhost",
    "evil.example",
    "HOST",
}
REGISTRY = re.compile(r"p[y]pi\.org|python[h]osted|repo1?\.maven|-index-url[=]|[a]rtifactory|[n]exus/")
MACHINERY = re.compile(
    r"\b(?:sub-?)?(?:ag[e]nt|ass[i]stant|chat ?b[o]t|l[l]m|g[p]t)s?\b|[c]laude|[a]nthropic|[o]penai", re.IGNORECASE
)
"""The pattern of words about tools that wrote the code. It is spelled so that this file does not match itself."""


def text_files() -> Iterable[tuple[Path, str]]:
    for path in project_files():
        if path.suffix not in BINARY_SUFFIXES:
            yield path, (ROOT / path).read_text(errors="replace")


def lines_with(pattern: re.Pattern[str]) -> Iterable[tuple[str, re.Match[str]]]:
    """Yield the place and the match for each match in the project."""
    for path, text in text_files():
        for number, line in enumerate(text.splitlines(), 1):
            for match in pattern.finditer(line):
                yield f"{path}:{number}: {line.strip()[:100]}", match


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
        if path.suffix in CODE_SUFFIXES and ROOT / path != Path(__file__)  # it names the words that it looks for
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


def test_no_path_of_a_machine() -> None:
    assert not [where for where, match in lines_with(ABSOLUTE) if not match[0].startswith(EXAMPLE_PATHS)]


def test_no_registry_and_no_unknown_host() -> None:
    assert not [where for where, _ in lines_with(REGISTRY)]
    assert not [where for where, match in lines_with(URL) if match[1] not in HOSTS]


def test_nothing_speaks_of_how_it_was_written() -> None:
    assert not [where for where, _ in lines_with(MACHINERY)]


def test_the_checks_of_places_see_what_they_should() -> None:
    """Put together here, so that the checks do not find them in this file."""
    for path in ("/ho" + "me/me/x", "'/wo" + "rk/data'", "see /t" + "mp/x", "=/ro" + "ot/.m2"):
        found = ABSOLUTE.search(path)
        assert found, path
        assert not found[0].startswith(EXAMPLE_PATHS)
    for harmless in ("a/home/b", "tests/tmp/x", "${HOME}/work/x", "and/or"):
        assert not ABSOLUTE.search(harmless)
    assert REGISTRY.search("ht" + "tps://py" + "pi.org/simple")
    assert MACHINERY.search("an A" + "gent wrote it")
    assert not MACHINERY.search("agency, prompt, session, assist")
