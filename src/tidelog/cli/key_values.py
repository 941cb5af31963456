"""``KEY=VALUE`` texts of repeatable options. A value may be a password, so no message shows one."""

from __future__ import annotations

from collections.abc import Sequence

import click


def key_values(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Return values by key; the last value of a repeated key counts.

    Raise UsageError for a text that is not KEY=VALUE.
    """
    settings: dict[str, str] = {}
    for number, text in enumerate(texts, 1):
        key, equals, value = text.partition("=")
        if not (key.strip() and equals):
            which = f" number {number}" if len(texts) > 1 else ""
            raise click.UsageError(f"{option}{which} is not KEY=VALUE.")
        settings[key.strip()] = value
    return settings
