"""Options that give settings: topics' settings, which settings count, and texts of the form KEY=VALUE."""

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


def key_values(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Return values by key; the last one of a repeated key counts. Raise UsageError for a text without KEY=VALUE."""
    settings: dict[str, str] = {}
    for number, text in enumerate(texts, 1):
        key, equals, value = text.partition("=")
        if not (key.strip() and equals):
            which = f" number {number}" if len(texts) > 1 else ""
            raise click.UsageError(f"{option}{which} is not KEY=VALUE.")
        settings[key.strip()] = value
    return settings


def due_options(command: F) -> F:
    """Add ``is_all``, ``min_dirty_ratio`` ``no_check`` and the options of settings."""
    for option in (
        config_file_option,
        topic_config_option,
        click.option(
            "--no-check", is_flag=True, help="Do not search the due logs for problems that would stop a cleaner."
        ),
        click.option(
            "--min-dirty-ratio",
            type=click.FloatRange(0, 1),
            metavar="RATIO",
            help="Use this ratio instead of the topics' min.cleanable.dirty.ratio.",
        ),
        click.option(
            "--all", "is_all", is_flag=True, help="Treat every compacted log that has anything to clean as due."
        ),
    ):
        command = option(command)
    return command
