"""Options that give topic settings if there is no cluster metadata, or try other values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from tidelog.config.java_properties import load_properties

F = TypeVar("F", bound=Callable[..., Any])


def topic_config_option(command: F) -> F:
    """Add the parameter ``settings``, for ``topic_settings``."""
    return click.option(
        "--topic-config",
        "settings",
        multiple=True,
        metavar="TOPIC:KEY=VALUE",
        help="A setting of a topic, by Kafka's key, which overrides the cluster metadata in the directory. Repeatable.",
    )(command)


def config_file_option(command: F) -> F:
    """Add the parameter ``config_file``, for ``properties``."""
    return click.option(
        "--config-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A broker's properties file (log.retention.hours, ...), or one with topic settings.",
    )(command)


def topic_settings(texts: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Return settings by topic and key. Raise UsageError for a text that is not TOPIC:KEY=VALUE."""
    settings: dict[str, dict[str, str]] = {}
    for text in texts:
        topic, colon, setting = text.partition(":")
        key, equals, value = setting.partition("=")
        if not (topic and colon and key and equals):
            raise click.UsageError(f"--topic-config {text!r} is not TOPIC:KEY=VALUE.")
        settings.setdefault(topic, {})[key.strip()] = value
    return settings


def properties(path: Path | None) -> Mapping[str, str]:
    """Return a properties file's settings; empty without a file. Raise UsageError if the file cannot be read."""
    if path is None:
        return {}
    try:
        return load_properties(path.read_text(encoding="latin-1"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--config-file {path} cannot be read: {error}") from None
