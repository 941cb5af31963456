"""The levels of this process's loggers, as clients read and set them (KIP-412).

==========  ========  ================================================================================================
Kafka's     Python's
==========  ========  ================================================================================================
FATAL       50        CRITICAL
ERROR       40        ERROR
WARN        30        WARNING
INFO        20        INFO
DEBUG       10        DEBUG
TRACE       5         no name of its own
==========  ========  ================================================================================================

Changes last until the process ends. A level between two of these has the lower one's name. A logger without a level
inherits it from its nearest ancestor with one. The root logger is called ``root``. Thread rule: any thread. Source:
Kafka's ``RuntimeLoggerManager``, ``LoggingController``, ``LogLevelConfig``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.configs.changes import ChangeKind, SettingChange
from tidelog.server.configs.config_entry import ConfigSource
from tidelog.server.configs.resource_type import ResourceType

if TYPE_CHECKING:
    from tidelog.protocol.message_types.configs import DescribeConfigsResourceResult

ROOT = "root"

_LEVELS = {"FATAL": 50, "ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10, "TRACE": 5}

_log = logging.getLogger(__name__)


def described_loggers(names: Iterable[str] | None) -> Iterator[DescribeConfigsResourceResult]:
    """Yield the fields of a DescribeConfigs response, sorted by name: of all loggers, or of ``names`` only."""
    wanted = set(names or ())
    for name, logger in sorted(_loggers().items()):
        if not wanted or name in wanted:
            level = _level_name(logger.getEffectiveLevel())
            yield {"name": name, "value": level, "config_source": ConfigSource.DYNAMIC_BROKER_LOGGER}


def alter_loggers(changes: Iterable[SettingChange], *, validate_only: bool) -> None:
    """Apply all changes or none. Raise ApiError, with Kafka's message, if one is invalid."""
    loggers, changes = _loggers(), list(changes)
    for change in changes:
        _check(change, loggers)
    if validate_only:
        return
    for change in changes:
        level = logging.NOTSET if change.kind is ChangeKind.DELETE else _LEVELS[change.value or ""]
        loggers[change.key].setLevel(level)
        _log.warning("The level of logger %s is now %s", change.key, change.value or "that of its parent")


def _loggers() -> dict[str, logging.Logger]:
    """Return every logger by name, including parents that no code has created itself."""
    return {ROOT: logging.root} | {name: logging.getLogger(name) for name in list(logging.root.manager.loggerDict)}


def _level_name(level: int) -> str:
    return next((name for name, least in _LEVELS.items() if level >= least), "TRACE")


def _check(change: SettingChange, loggers: Mapping[str, logging.Logger]) -> None:
    if change.kind in (ChangeKind.APPEND, ChangeKind.SUBTRACT):
        resource = ResourceType.BROKER_LOGGER.name
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{change.kind.name} operation is not allowed for the {resource} resource"
        )
    if change.key not in loggers:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {change.key} does not exist!")
    if change.kind is ChangeKind.DELETE and change.key == ROOT:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    if change.kind is ChangeKind.SET and change.value not in _LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {change.key} to {change.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(_LEVELS))}",
        )
