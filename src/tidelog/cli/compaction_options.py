"""Options that select logs to compact, for ``tidelog compact`` and ``tidelog spark compact``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tidelog.cli.setting_options import config_file_option, topic_config_option

F = TypeVar("F", bound=Callable[..., Any])


def due_options(command: F) -> F:
    """Add ``is_all``, ``min_dirty_ratio`` and ``no_check``, and the options of ``setting_options``."""
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
