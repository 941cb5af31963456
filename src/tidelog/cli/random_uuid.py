"""``tidelog random-uuid``: a new id in Kafka's text form."""

from __future__ import annotations

import click

from tidelog.cli.options import chosen_format, output_options
from tidelog.cli.report import Report
from tidelog.storage.checkpoint import random_uuid as new_uuid
from tidelog.storage.checkpoint import uuid_to_text


@click.command()
@output_options
def random_uuid() -> Report:
    """Print a new random id, for a cluster or a directory.

    Exit codes: 0 printed.

    \b
    Examples:
      tidelog random-uuid
    """
    text = uuid_to_text(new_uuid())
    return Report(text=[f"{text}\n"]) if chosen_format() is None else Report(rows=[{"uuid": text}])
