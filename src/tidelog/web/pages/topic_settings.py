"""The settings of a topic: each key with its value, its default, and the source of the value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.topic_settings import redacted_text
from tidelog.config.value_text import KeyType
from tidelog.inspect.durations import duration_text
from tidelog.model import ConfigError
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.storage.manager.survey.setting_sources import DEFAULT_ORIGIN, TOPIC_ORIGIN, SettingSources, SourcedText
from tidelog.web.page import Column, Kind, Row, Section, Table

_LONGEST_MS = 1 << 53
"""A greater number of milliseconds means never."""


def settings_sections(topic: str, sources: Sequence[SettingSources]) -> list[Section]:
    """Return a section of the settings with a source, and a folded one of the others.

    The first sources are those of the newest metadata; the others are of other brokers, whose own settings may differ.
    """
    own = _texts(topic, sources[0])
    others = {other.node_id: _texts(topic, other) for other in sources[1:] if other.node_id != sources[0].node_id}
    elsewhere = {name for found in others.values() for name in found}
    known_from = sources[0].metadata_from
    given = sorted({*own, *elsewhere})
    rest = [key.name for key in TOPIC_KEYS.values() if key.name not in given and not key.internal]
    empty = "No setting of the topic or of a broker is known: the defaults below count."
    return [
        Section(
            name="settings",
            title="Settings",
            text=_source_text(topic, "" if known_from is None else str(known_from)),
            table=_table([_row(name, own.get(name), others) for name in given], empty),
        ),
        Section(
            name="defaults",
            title=f"Settings with their defaults: {len(rest)}",
            is_folded=True,
            table=_table([_row(name, None, others) for name in rest], ""),
        ),
    ]


def _table(rows: Sequence[Row], empty: str) -> Table:
    columns = [
        Column(name="key", kind=Kind.CODE),
        Column(name="value", kind=Kind.CODE),
        Column(name="in_words"),
        Column(name="default", kind=Kind.CODE),
        Column(name="source"),
        Column(name="elsewhere", title="other brokers"),
        Column(name="meaning"),
    ]
    optional = {name for name in ("in_words", "elsewhere") if not any(row[name] for row in rows)}
    optional |= set() if any(row["value"] != row["default"] for row in rows) else {"default", "source"}
    return Table(columns=[column for column in columns if column.name not in optional], rows=rows, empty=empty)


def _texts(topic: str, sources: SettingSources) -> Mapping[str, SourcedText]:
    """Return the settings of all sources, or only the topic's own if a broker's setting is invalid."""
    try:
        return sources.texts_of_topic(topic)
    except ConfigError:
        own = sources.metadata.topic_settings.get(topic, {})
        return {key: SourcedText(text, TOPIC_ORIGIN) for key, text in own.items()}


def _row(name: str, own: SourcedText | None, others: Mapping[int | None, Mapping[str, SourcedText]]) -> Row:
    key = TOPIC_KEYS.get(name)
    default = "" if key is None else key.default_text
    value = default if own is None else redacted_text(name, own.text)
    return {
        "key": name,
        "value": value or ("" if own is None else "empty"),
        "in_words": _words(name, value),
        "default": default,
        "source": DEFAULT_ORIGIN if own is None else own.origin,
        "elsewhere": _elsewhere(name, own, others),
        "meaning": "a key that this release does not know" if key is None else key.doc.replace("`", ""),
    }


def _words(name: str, value: str) -> str:
    """Return a duration or a problem in words; empty without either."""
    key = TOPIC_KEYS.get(name)
    if key is None or not value:
        return ""
    try:
        parsed = key.parse(value)
    except ConfigError as error:
        return f"invalid: {error.message}"
    is_time = name.endswith(".ms") and key.type in (KeyType.INT, KeyType.LONG)
    if not is_time or not isinstance(parsed, int) or parsed < 1000:
        return ""
    return duration_text(parsed) if parsed < _LONGEST_MS else "never"


def _elsewhere(name: str, own: SourcedText | None, others: Mapping[int | None, Mapping[str, SourcedText]]) -> str:
    """Return the values on other brokers that differ, such as ``node 2: 60000 (broker 2)``."""
    text = None if own is None else own.text
    differing = []
    for node_id, found in others.items():
        other = found.get(name)
        if (None if other is None else other.text) != text:
            shown = "the default" if other is None else f"{redacted_text(name, other.text)} ({other.origin})"
            differing.append(f"node {node_id}: {shown}")
    return ", ".join(differing)


def _source_text(topic: str, known_from: str) -> str:
    if topic == CLUSTER_METADATA_TOPIC:
        return (
            "No setting applies to the cluster metadata: KRaft decides by its snapshots how much of the log it keeps."
        )
    if not known_from:
        return (
            "There is no cluster metadata here, and a log directory has a topic's settings nowhere else. Each value is"
            " Kafka's default, which the topic or its broker may have changed."
        )
    return (
        f"The settings come from the metadata in {known_from}. The source of a value is the topic, one broker or all"
        " brokers (set at run time), or the default. server.properties is not in a log directory."
    )
