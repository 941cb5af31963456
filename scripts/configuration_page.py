"""docs/configuration.md: every configuration key, from the tables that define them.

`make map` writes it again; a test fails while the page and the tables differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tidelog.config.broker_keys import BROKER_AREAS
from tidelog.config.key import Key, UpdateMode
from tidelog.config.resources.client_subscription import CLIENT_METRICS_KEYS
from tidelog.config.resources.group_keys import GROUP_KEYS
from tidelog.config.resources.quota_keys import ADDRESS_QUOTAS, CLIENT_QUOTAS, REPLICATION_RATES
from tidelog.config.synonyms import TOPIC_SYNONYMS
from tidelog.config.topic_keys import TOPIC_KEYS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"

INTRODUCTION = """\
# Configuration

Written by `make map` from the tables in `src/tidelog/config`; a test holds those against Kafka 4.1. `tidelog config`
explains a key, with its value and where that comes from.

- **Names, types, defaults and ranges are Kafka's**, and so are the words a value is refused with.
- **Order.** A topic's setting goes before the broker's key for it; of that, what was changed at run time goes before an
  override on the command line, that before `server.properties`, that before the default. Of keys that say the same in
  several units, the first that is set decides: `log.retention.ms`, else `.minutes`, else `.hours`; likewise
  `log.roll.*`. `log.dirs` goes before `log.dir`; `log.flush.scheduler.interval.ms` stands in for
  `log.flush.interval.ms`.
- **Keys no table knows** are warned of, with the nearest known one. Keys of a listener (`listener.name.NAME.KEY`) are
  checked as the key itself. Keys that plug-ins read are handed on.
- **Not used** means: known and checked, without an effect in tidelog.
- **Small segments.** `segment.bytes` is at least 1 MiB, as in Kafka 4.1; `internal.segment.bytes` goes below it. In
  Python, `LogConfig(segment_bytes=...)` begins at 14.
"""

CHANGES = {
    UpdateMode.READ_ONLY: "restart",
    UpdateMode.PER_BROKER: "at run time, per broker",
    UpdateMode.CLUSTER_WIDE: "at run time",
}
NOT_USED = " *Not used.*"

OTHERS = {
    "Groups": GROUP_KEYS,
    "Subscriptions to metrics of clients": CLIENT_METRICS_KEYS,
    "Quotas of users and clients": CLIENT_QUOTAS,
    "Quotas of addresses": ADDRESS_QUOTAS,
    "Rates of a broker, at run time only": REPLICATION_RATES,
}


def page() -> str:
    used = sum(key.used for area in BROKER_AREAS.values() for key in area.values())
    known = sum(map(len, BROKER_AREAS.values()))
    return "\n".join(
        [
            INTRODUCTION,
            f"## Topics\n{len(TOPIC_KEYS)} settings; each can change while the topic is in use.\n",
            *topic_table(),
            f"\n## Brokers\n{known} keys, of which tidelog uses {used}.",
            *(line for area, keys in BROKER_AREAS.items() for line in (f"\n### {area}\n", *broker_table(keys))),
            *(line for title, keys in OTHERS.items() for line in (f"\n## {title}\n", *plain_table(keys))),
            "",
        ]
    )


def topic_table() -> list[str]:
    lines = ["| setting | type | default | allowed | broker's key | what it does |", "|---|---|---|---|---|---|"]
    for name, key in TOPIC_KEYS.items():
        synonyms = ", ".join(f"`{synonym.name}`" for synonym in TOPIC_SYNONYMS.get(name, ()))
        lines.append(f"| {start(key)} | {synonyms} | {meaning(key)} |")
    return lines


def broker_table(keys: Mapping[str, Key]) -> list[str]:
    lines = ["| key | type | default | allowed | changes | what it does |", "|---|---|---|---|---|---|"]
    return lines + [f"| {start(key)} | {CHANGES[key.mode]} | {meaning(key)} |" for key in keys.values()]


def plain_table(keys: Mapping[str, Key]) -> list[str]:
    lines = ["| key | type | default | allowed | what it does |", "|---|---|---|---|---|"]
    return lines + [f"| {start(key)} | {meaning(key)} |" for key in keys.values()]


def start(key: Key) -> str:
    default = f"`{key.default_text}`" if key.default_text else ("required" if key.required else "")
    return f"`{key.name}` | {key.type.value.lower()} | {default} | {key.valid.words}"


def meaning(key: Key) -> str:
    return key.doc + ("" if key.used else NOT_USED)


if __name__ == "__main__":
    PAGE.write_text(page())
