"""Destination and format of log lines: a configuration file for Python's ``logging``, or stderr.

A line has a time with milliseconds and UTC offset, level, logger and message. Its control characters are escaped and a
very long message is shortened, because names in it may be untrusted. An error that tidelog raises on purpose (a user's
mistake, or the disk's fault) has no stack trace. Any other error is a bug, and has one.

The file is a dictionary for ``logging.config.dictConfig``, as TOML or JSON. Its defaults are ``version`` 1, and that
existing loggers stay enabled. The formatter ``line`` gives the lines above. The file can name any importable class, so
it must be as trusted as a program. A process calls this once, first. A library never does, because the program that
embeds it has its own setup.
"""

from __future__ import annotations

import logging
import logging.config
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from tidelog.model.errors import ConfigError, TidelogError

_LONGEST = 8192
"""The longest message in characters."""

Failure = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def set_up_logging(file: Path | None = None) -> None:
    """Log as ``file`` says. Raise ConfigError if the file cannot be read or used.

    Without a file, ``tidelog``'s lines from INFO up and others' warnings go to stderr.
    """
    settings: dict[str, Any] = {"version": 1, "disable_existing_loggers": False, "formatters": {}}
    settings |= _read(file) if file is not None else _ON_STDERR
    formatters: dict[str, Any] = {"line": {"()": LineFormatter}}
    try:
        logging.config.dictConfig(settings | {"formatters": formatters | settings["formatters"]})
    except (ValueError, TypeError, AttributeError, ImportError, OSError) as error:
        reason = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
        raise ConfigError(f"the logging configuration cannot be used: {reason}", path=file) from error


class LineFormatter(logging.Formatter):
    """``2026-03-01T10:44:42.123+00:00 WARNING tidelog.storage.log.load: message``, one line for each record."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802, logging's name
        moment = datetime.fromtimestamp(record.created, UTC).astimezone()
        return moment.strftime(datefmt) if datefmt else moment.isoformat(timespec="milliseconds")

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        failure = record.exc_info or (None, None, None)
        if isinstance(failure[1], TidelogError):
            reason = str(failure[1])
            message = message if reason in message else f"{message}: {reason}"
            failure = (None, None, None)
        line = f"{self.formatTime(record)} {record.levelname} {record.name}: {_escaped(message)}"
        traces = [self.formatException(failure)] if failure[0] is not None else []
        if record.stack_info:
            traces.append(self.formatStack(record.stack_info))
        return "\n".join([line, *(_escaped(row) for trace in traces for row in trace.splitlines())])


class StderrHandler(logging.StreamHandler[TextIO]):
    """A handler for the current ``sys.stderr``, so that a progress bar can make room for the lines."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override] # never set: each line reads it again
        return sys.stderr


_ON_STDERR: dict[str, Any] = {
    "handlers": {"stderr": {"()": StderrHandler, "formatter": "line"}},
    "loggers": {"tidelog": {"level": "INFO"}},
    "root": {"level": "WARNING", "handlers": ["stderr"]},
}


def _read(file: Path) -> dict[str, Any]:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"the logging configuration cannot be read: {error.strerror}", path=file) from error
    import json
    import tomllib

    try:
        settings = tomllib.loads(data.decode()) if file.suffix == ".toml" else json.loads(data)
    except ValueError as error:
        kind = "TOML" if file.suffix == ".toml" else "JSON"
        raise ConfigError(f"the logging configuration is not {kind}: {error}", path=file) from error
    if not isinstance(settings, dict):
        raise ConfigError("the logging configuration is not a table of settings", path=file)
    return settings


def _escaped(text: str) -> str:
    """Escape and shorten a text: a topic's name must not end the line, control a terminal or fill the disk."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}... and {len(text) - _LONGEST} characters more"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
