"""docs/configuration.md: every configuration key, from the tables that define them.

`make map` writes the page again. A test fails while the page and the tables differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tidelog.config.broker_keys import BROKER_AREAS
from tidelog.config.key import Effect, Key, UpdateMode
from tidelog.config.quota_keys import ADDRESS_QUOTAS, CLIENT_QUOTAS, REPLICATION_RATES
from tidelog.config.resources.client_subscription import CLIENT_METRICS_KEYS
from tidelog.config.resources.group_keys import GROUP_KEYS
from tidelog.config.synonyms import TOPIC_SYNONYMS
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.zookeeper_keys import ZOOKEEPER_KEYS, ZOOKEEPER_TOPIC_KEYS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"

INTRODUCTION = """\
# Configuration

Written by `make map` from the tables in `src/tidelog/config`. A test compares those with Kafka 4.4's own. What a table
calls without effect cannot be read by the code that acts, because the accessor refuses it. `tidelog config` explains a
key, with its value and where that comes from.

- **Names, types, defaults and ranges are Kafka's**, and so are the words a value is refused with.
- **Three parts.** First come the keys that tidelog acts by, then the keys that it [only checks](#only-checked), then
  the keys that it accepts [without effect](#accepted-without-effect).
- **Order.** A topic's setting goes before the broker's key for it. Of that, what was changed at run time goes before an
  override on the command line, that before `server.properties`, that before the default. Of keys that say the same in
  several units, the first that is set decides: `log.retention.ms`, else `.minutes`, else `.hours`; likewise
  `log.roll.*`. `log.dirs` goes before `log.dir`; `log.flush.scheduler.interval.ms` stands in for
  `log.flush.interval.ms`.
- **Keys no table knows** are warned of, with the nearest known one. Keys of a listener (`listener.name.NAME.KEY`) are
  checked as the key itself. Keys that plug-ins read are handed on.
- **ZooKeeper.** A broker with `zookeeper.connect` and without `process.roles` also has the keys of Kafka 3.9 that
  Kafka 4 removed. Other brokers warn of them. A test compares them with Kafka 3.9's own. Where the defaults of Kafka
  3.9 and 4.4 differ, as for `log.message.timestamp.after.max.ms`, those of 4.4 apply.
- **Small segments.** `segment.bytes` is at least 1 MiB, as in Kafka 4.4; `internal.segment.bytes` goes below it. In
  Python, `LogConfig(segment_bytes=...)` begins at 14.
"""

ONLY_CHECKED = """
## Only checked
tidelog refuses some values of these keys, or holds other settings against them. Nothing else comes of them.
"""

WITHOUT_EFFECT = """
## Accepted, without effect
Name, type and range are checked, and clients who ask are shown the value. The last column says what Kafka does with it.
"""

CHANGES = {
    UpdateMode.READ_ONLY: "restart",
    UpdateMode.PER_BROKER: "at run time, per broker",
    UpdateMode.CLUSTER_WIDE: "at run time",
}

OTHERS = {
    "Brokers with ZooKeeper": ZOOKEEPER_KEYS,
    "Topics with ZooKeeper": ZOOKEEPER_TOPIC_KEYS,
    "Groups": GROUP_KEYS,
    "Subscriptions to metrics of clients": CLIENT_METRICS_KEYS,
    "Quotas of users and clients": CLIENT_QUOTAS,
    "Quotas of addresses": ADDRESS_QUOTAS,
    "Rates of a broker, at run time only": REPLICATION_RATES,
}

TABLES: Mapping[str, Mapping[str, Key]] = {"Topics": TOPIC_KEYS, **BROKER_AREAS, **OTHERS}
"""Every table by its heading."""


def page() -> str:
    return "\n".join(
        [
            INTRODUCTION,
            f"## Topics\n{count(TOPIC_KEYS)} Each can change while the topic is in use.\n",
            *topic_table(),
            f"\n## Brokers\n{count({name: key for keys in BROKER_AREAS.values() for name, key in keys.items()})}",
            *sections("###", BROKER_AREAS, broker_table),
            *sections("##", OTHERS, plain_table),
            ONLY_CHECKED,
            *rest_table(Effect.CHECKED),
            WITHOUT_EFFECT,
            *rest_table(Effect.NONE),
            "",
        ]
    )


def count(keys: Mapping[str, Key]) -> str:
    return f"{len(keys)} keys, of which tidelog acts by {len(with_effect(keys, Effect.USED))}."


def with_effect(keys: Mapping[str, Key], effect: Effect) -> list[Key]:
    return [key for key in keys.values() if key.effect is effect]


def sections(
    mark: str, tables: Mapping[str, Mapping[str, Key]], table: Callable[[list[Key]], list[str]]
) -> Iterator[str]:
    """Yield the tables of the keys that tidelog uses, and omit tables without any."""
    for title, keys in tables.items():
        used = with_effect(keys, Effect.USED)
        if used:
            yield f"\n{mark} {title}\n"
            yield from table(used)


def topic_table() -> list[str]:
    lines = ["| setting | type | default | allowed | broker's key | what it does |", "|---|---|---|---|---|---|"]
    for key in with_effect(TOPIC_KEYS, Effect.USED):
        synonyms = ", ".join(f"`{synonym.name}`" for synonym in TOPIC_SYNONYMS.get(key.name, ()))
        lines.append(f"| {start(key)} | {synonyms} | {key.doc} |")
    return lines


def broker_table(keys: list[Key]) -> list[str]:
    lines = ["| key | type | default | allowed | changes | what it does |", "|---|---|---|---|---|---|"]
    return lines + [f"| {start(key)} | {CHANGES[key.mode]} | {key.doc} |" for key in keys]


def plain_table(keys: list[Key]) -> list[str]:
    lines = ["| key | type | default | allowed | what it does |", "|---|---|---|---|---|"]
    return lines + [f"| {start(key)} | {key.doc} |" for key in keys]


def rest_table(effect: Effect) -> list[str]:
    lines = ["| key | type | default | allowed | table | what it is for |", "|---|---|---|---|---|---|"]
    return lines + [
        f"| {start(key)} | {title} | {key.doc} |" for title, keys in TABLES.items() for key in with_effect(keys, effect)
    ]


def start(key: Key) -> str:
    default = f"`{key.default_text}`" if key.default_text else ("required" if key.required else "")
    return f"`{key.name}` | {key.type.value.lower()} | {default} | {key.valid.words}"


if __name__ == "__main__":
    PAGE.write_text(page())
