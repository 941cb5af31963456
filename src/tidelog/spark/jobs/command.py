"""The common parts of jobs that run as programs: their arguments, and rows as JSON lines.

They work with ``python -m`` and ``spark-submit`` without the ``tidelog`` command line.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Row


def job_parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"tidelog.spark.jobs.{name}", description=description)
    parser.add_argument("directories", nargs="+", metavar="DIR")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME", help="only this topic; repeatable")
    parser.add_argument("--master", "--remote", metavar="URL", help="the URL of Spark's master; not with spark-submit")
    return parser


def print_rows(rows: Iterable[Row]) -> None:
    for row in rows:
        print(json.dumps(row.asDict()))


def add_topic_config(parser: argparse.ArgumentParser) -> None:
    """Add the ``topic_config`` argument, whose values ``topic_settings`` takes."""
    parser.add_argument(
        "--topic-config",
        action="append",
        default=[],
        type=_setting,
        metavar="TOPIC:KEY=VALUE",
        help="a setting of a topic, by Kafka's key; repeatable",
    )


def topic_settings(given: Sequence[tuple[str, str, str]]) -> Mapping[str, Mapping[str, str]]:
    """Return the settings by topic and key."""
    settings: dict[str, dict[str, str]] = {}
    for topic, key, value in given:
        settings.setdefault(topic, {})[key] = value
    return settings


def _setting(text: str) -> tuple[str, str, str]:
    topic, colon, setting = text.partition(":")
    key, equals, value = setting.partition("=")
    if not (topic and colon and key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC:KEY=VALUE")
    return topic, key.strip(), value
