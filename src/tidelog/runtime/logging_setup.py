"""Where log lines go, and what they look like: Python's ``logging`` with a file of its own configuration, or lines on
stderr.

A line is a fact: time with milliseconds and offset from UTC, level, logger, message; control characters in it are
escaped, and a very long one is cut: names in it may be a stranger's. An error that tidelog raises on purpose (a user's
mistake, or the disk's fault) is said without a stack trace; anything else is a bug, and has one.

The file is a dictionary of ``logging.config.dictConfig``, as TOML or JSON. What is not said in it: ``version`` is 1,
loggers there are stay in use, and ``line`` is a formatter that gives the lines above. It can name any class that can be
imported, so it is as trusted as a program.
Called by: whoever starts a process, once, first. A library never does: a program that embeds tidelog has its own.
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
"""Characters of a line."""

Failure = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def set_up_logging(file: Path | None = None) -> None:
    """``file`` None: ``tidelog``'s lines from INFO up and others' warnings, on stderr. ConfigError for a file that
    cannot be read or used."""
    settings: dict[str, Any] = {"version": 1, "disable_existing_loggers": False, "formatters": {}}
    settings |= _read(file) if file is not None else _ON_STDERR
    formatters: dict[str, Any] = {"line": {"()": LineFormatter}}
    try:
        logging.config.dictConfig(settings | {"formatters": formatters | settings["formatters"]})
    except (ValueError, TypeError, AttributeError, ImportError, OSError) as error:
        reason = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
        raise ConfigError(f"the logging configuration cannot be used: {reason}", path=file) from error


class LineFormatter(logging.Formatter):
    """``2026-03-01T10:44:42.123+00:00 WARNING tidelog.storage.manager.loading: message``, a line a record."""

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
        line = f"{self.formatTime(record)} {record.levelname} {record.name}: {_visible(message)}"
        traces = [self.formatException(failure)] if failure[0] is not None else []
        if record.stack_info:
            traces.append(self.formatStack(record.stack_info))
        return "\n".join([line, *(_visible(row) for trace in traces for row in trace.splitlines())])


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what ``sys.stderr`` is at the moment, so that a progress bar can make room for the lines."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override] # never set: it is asked for at each line
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


def _visible(text: str) -> str:
    """A topic's name may not end the line, nor steer a terminal, nor fill the disk."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}... and {len(text) - _LONGEST} characters more"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
