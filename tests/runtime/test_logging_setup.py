"""Log lines: their format, and valid and invalid configuration files."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.runner import run
from project.tree import ROOT
from tidelog.model import ConfigError, StorageError
from tidelog.runtime.logging_setup import LineFormatter, set_up_logging

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("tidelog")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    for handler in {*root.handlers} - {*handlers}:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def test_a_line_a_fact_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    known_before = logging.getLogger("tidelog.known.before")
    set_up_logging()
    known_before.info("Loaded %s in %d ms", "orders-0", 12)
    logging.getLogger("tidelog.storage").debug("too much")
    logging.getLogger("others").info("too much")
    logging.getLogger("others").warning("of a library")
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(rf"{TIME} INFO tidelog\.known\.before: Loaded orders-0 in 12 ms", first)
    assert re.fullmatch(rf"{TIME} WARNING others: of a library", second)


def test_it_follows_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging()
    above_the_bar = io.StringIO()
    with contextlib.redirect_stderr(above_the_bar):
        logging.getLogger("tidelog").info("x")
    assert above_the_bar.getvalue()
    assert not capsys.readouterr().err


def test_a_mistake_has_no_stack_trace_a_bug_has_one(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging()
    logger = logging.getLogger("tidelog")
    try:
        raise StorageError("no space left", path="/d/f")
    except StorageError as error:
        logger.exception("Flushing failed")
        logger.error("Flushing failed: %s", error, exc_info=True)
    assert [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "Flushing failed: no space left (file /d/f)"
    ] * 2
    try:
        raise KeyError("ours\x1b")
    except KeyError:
        logger.exception("Flushing failed", stack_info=True)
    text = capsys.readouterr().err
    lines = text.splitlines()
    assert lines[0].endswith("tidelog: Flushing failed")
    assert lines[1] == "Traceback (most recent call last):"
    assert "KeyError: 'ours\\x1b'" in lines
    assert "Stack (most recent call last):" in lines
    assert "\x1b" not in text


def test_what_is_logged_cannot_make_lines_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging()
    logging.getLogger("tidelog").info("a topic called %s", "x\n2026-01-01 INFO forged\x1b[2J\x85")
    text = capsys.readouterr().err
    assert text.endswith("a topic called x\\n2026-01-01 INFO forged\\x1b[2J\\x85\n")
    assert text.count("\n") == 1


def rotating(file: Path) -> str:
    """Return the configuration of docs/logging.md, with another file and smaller numbers."""
    page = (ROOT / "docs" / "logging.md").read_text()
    shown = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0]
    assert "RotatingFileHandler" in shown
    return re.sub(r'filename = ".*"', f'filename = "{file}"', shown).replace("100_000_000", "1_000")


@pytest.mark.parametrize("suffix", [".toml", ".json", ".conf"])
def test_a_file_that_rotates(tmp_path: Path, suffix: str) -> None:
    config = tmp_path / f"logging{suffix}"
    log = tmp_path / "tidelog.log"
    if suffix == ".toml":
        config.write_text(rotating(log))
    else:
        config.write_text(json.dumps(tomllib.loads(rotating(log))))
    set_up_logging(config)
    for number in range(30):
        logging.getLogger("tidelog").info("fact %d", number)
    assert {file.name for file in tmp_path.glob("tidelog.log*")} >= {"tidelog.log", "tidelog.log.1"}
    assert re.fullmatch(rf"{TIME} INFO tidelog: fact 29", log.read_text().splitlines()[-1])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("missing.toml", None, r"cannot be read: No such file or directory \(file .*missing\.toml\)"),
        ("a.toml", "= 1", r"is not TOML: .*\(file .*a\.toml\)"),
        ("a.json", "{", "is not JSON: "),
        ("a.json", "[1]", "is not a table of settings"),
        ("a.json", '{"version": 2}', "cannot be used: .*2"),
        ("a.json", '{"formatters": 7}', "cannot be used: "),
        ("a.toml", '[handlers.x]\nclass = "no.such.Handler"', "cannot be used: .*'x'.*no"),
        ("a.toml", '[root]\nhandlers = ["missing"]', "cannot be used: .*missing"),
        ("a.toml", '[handlers.x]\nclass = "logging.FileHandler"\nfilename = "/no/dir/f"', "cannot be used: .*No such"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_said(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message):
        set_up_logging(tmp_path / name)


def test_the_option_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "data" / "orders-0").mkdir(parents=True)
    config = tmp_path / "logging.toml"
    config.write_text(rotating(tmp_path / "tidelog.log"))
    run("--logging-config", config, "info", tmp_path / "data")
    assert (tmp_path / "tidelog.log").exists()
    assert "cannot be read" in run("--logging-config", tmp_path / "missing", "info", tmp_path / "data", code=2).output
    run("--logging-config", "stderr", "info", tmp_path / "data")


def test_a_very_long_line_is_cut() -> None:
    record = logging.LogRecord("tidelog", logging.INFO, "", 0, "%s\n", ("x" * 10_000,), None)
    assert LineFormatter().format(record).endswith("x... and 1809 characters more")
