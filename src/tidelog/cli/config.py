"""``tidelog config``: a row for each key. People get a table for each key, or one table of all keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from tidelog.cli.options import output_options
from tidelog.cli.report import FINDINGS, ExitCode, Report, Row, Table
from tidelog.cli.setting_options import key_values
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import unknown_key_text
from tidelog.config.explanation import Explanation, KeyKind, explain, explain_all
from tidelog.config.key import UpdateMode
from tidelog.config.topic_settings import TopicSettings
from tidelog.config.value_text import KeyType, Password, format_value
from tidelog.inspect.durations import duration_text

COLUMNS = ("key", "kind", "value", "default", "origin", "update", "used")

_UPDATES = {
    UpdateMode.READ_ONLY: "with a restart",
    UpdateMode.PER_BROKER: "at run time, for each broker",
    UpdateMode.CLUSTER_WIDE: "at run time, for one broker or all",
}
_LOCAL_RETENTION: Mapping[str, Callable[[TopicSettings], int]] = {
    "local.retention.bytes": lambda topic: topic.local_retention_bytes,
    "local.retention.ms": lambda topic: topic.local_retention_ms,
}
"""The effective values: -2 stands for the topic's total retention."""
_LONGEST_MS = 1 << 53
"""A greater number of milliseconds means never."""


@click.command()
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A broker's server.properties.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A broker's key, which overrides the file, as in kafka-server-start. Repeatable.",
)
@click.option(
    "--topic-config",
    "topic_texts",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the topic, which overrides the broker's default. Repeatable.",
)
@click.option("--all", "with_defaults", is_flag=True, help="Also show the keys that have their default values.")
@output_options
def config(
    keys: Sequence[str],
    file: Path | None,
    overrides: Sequence[str],
    topic_texts: Sequence[str],
    with_defaults: bool,
) -> Report:
    """Explain configuration keys: their values, the origins of the values, and their effects.

    KEY is a broker's key (log.retention.hours) or a topic's (retention.ms). The output shows its value, type, default
    and allowed values. It also shows the value's origin: a line of the file, an override or another key. It says if the
    value can change at run time, and if tidelog uses the key.

    Without a KEY, every key is shown whose value is not the default. Values are checked as Kafka 4.4 checks them, and
    unknown keys are named. Passwords are never shown.

    Exit codes: 0 shown, 1 the configuration has keys that Kafka does not know, 2 wrong usage or a value that Kafka
    refuses.

    \b
    Examples:
      tidelog config retention.ms
      tidelog config log.roll.ms segment.ms --file server.properties
      tidelog config --file server.properties --override log.dirs=/var/lib/kafka
      tidelog config retention.ms --topic-config retention.ms=86400000 --json
    """
    broker = BrokerConfig.load(file, key_values("--override", overrides))
    topic = TopicSettings.of(key_values("--topic-config", topic_texts), broker)
    found = _chosen(keys, broker, topic, with_defaults=with_defaults)
    return Report(
        rows=[_row(one) for one in found],
        tables=[_table(one, broker, topic) for one in found] if keys else [_overview(found)],
        notes=list(_notes(found, broker, topic, keys=keys)),
        exit_code=ExitCode(FINDINGS if broker.warnings else 0),
    )


def _chosen(
    keys: Sequence[str], broker: BrokerConfig, topic: TopicSettings, *, with_defaults: bool
) -> list[Explanation]:
    if not keys:
        return [one for one in explain_all(broker, topic) if with_defaults or one.differs]
    found = []
    for key in keys:
        explanations = explain(key, broker, topic)
        if not explanations:
            raise click.UsageError(unknown_key_text(key, (*broker.keys, *broker.topic_keys)))
        found += explanations
    return found


def _row(one: Explanation) -> Row:
    origin = one.origin
    return {
        "key": one.name,
        "kind": one.kind.value,
        "value": _plain(one),
        "type": one.key.type.value,
        "default": one.key.default,
        "valid": str(one.key.valid) or None,
        "importance": one.key.importance.value,
        "update": one.key.mode.value,
        "used": one.key.used,
        "origin": origin.kind.value,
        "origin_key": origin.key,
        "file": origin.file or None,
        "line": origin.line or None,
        "synonyms": list(one.synonyms),
        "doc": one.key.doc,
    }


def _plain(one: Explanation) -> object:
    return format_value(one.value) if isinstance(one.value, Password) else one.value


def _overview(found: Sequence[Explanation]) -> Table:
    rows = [
        {
            "key": one.name,
            "kind": one.kind.value,
            "value": _value_text(one),
            "default": one.key.default_text,
            "origin": _origin_text(one),
            "update": one.key.mode.value,
            "used": one.key.used,
        }
        for one in found
    ]
    return Table(rows=rows, columns=COLUMNS)


def _table(one: Explanation, broker: BrokerConfig, topic: TopicSettings) -> Table:
    title = f"{one.name}: {'a setting of topics' if one.kind is KeyKind.TOPIC else 'a key of brokers'}\n{one.key.doc}"
    return Table(rows=[{"what": what, "is": text} for what, text in _lines(one, broker, topic)], title=title)


def _lines(one: Explanation, broker: BrokerConfig, topic: TopicSettings) -> Iterator[tuple[str, str]]:
    key = one.key
    if one.value is None and one.origin.key != one.name:
        decider = one.origin.key
        yield "value", f"not set; {decider} decides: {format_value(broker.shown(decider))}"
    else:
        yield "value", _value_text(one)
    if one.name in _LOCAL_RETENTION and one.kind is KeyKind.TOPIC:
        yield "which is", str(_LOCAL_RETENTION[one.name](topic))
    yield "from", _origin_text(one)
    yield "default", key.default_text or ("required" if key.required else "none")
    yield "type", f"{key.type.value.lower()}{' (hidden)' if key.is_secret else ''}"
    if key.valid.words:
        yield "allowed", key.valid.words
    if one.synonyms and one.synonyms != (one.name,):
        what = "default set by" if one.kind is KeyKind.TOPIC else "set by"
        yield what, ", else ".join(one.synonyms)
    yield "can change", "at run time" if one.kind is KeyKind.TOPIC else _UPDATES[key.mode]
    yield "importance", key.importance.value
    yield "in tidelog", "has effect" if key.used else "known, without effect"


def _value_text(one: Explanation) -> str:
    value = one.value
    if value is None:
        return "not set"
    text = format_value(value) or "empty"
    is_time = one.key.name.endswith(".ms") and one.key.type in (KeyType.INT, KeyType.LONG)
    if is_time and isinstance(value, int) and 1000 <= value < _LONGEST_MS:
        return f"{text} ({duration_text(value)})"
    return text


def _origin_text(one: Explanation) -> str:
    """Return the place of the value, after its key if that is not ``one.name``."""
    return one.origin.place if one.origin.key == one.name else f"{one.origin.key}, {one.origin.place}"


def _notes(
    found: Sequence[Explanation], broker: BrokerConfig, topic: TopicSettings, *, keys: Sequence[str]
) -> Iterator[str]:
    for warning in broker.warnings:
        yield f"Warning: {warning}"
    if topic.overrides:
        yield f"The topic sets {topic.overrides_text()}."
    if not keys:
        if broker.without_effect:
            yield f"Known to Kafka, without effect in tidelog: {', '.join(broker.without_effect)}."
        if broker.settings and broker.missing:
            yield f"A Kafka broker does not start without {' and '.join(broker.missing)}."
        if not found:
            yield "Every key has its default value; --all shows them."
