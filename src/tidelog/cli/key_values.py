"""``KEY=VALUE``, as repeatable options take it. A value may be a password, so no message shows one."""

from __future__ import annotations

from collections.abc import Sequence

import click


def key_values(option: str, texts: Sequence[str]) -> dict[str, str]:
    """By key; of one that is given twice the last counts. UsageError for a text that is none."""
    settings: dict[str, str] = {}
    for number, text in enumerate(texts, 1):
        key, equals, value = text.partition("=")
        if not (key.strip() and equals):
            which = f" number {number}" if len(texts) > 1 else ""
            raise click.UsageError(f"{option}{which} is not KEY=VALUE.")
        settings[key.strip()] = value
    return settings
