"""Every broker key of Kafka 4.4 (``KafkaConfig``), those of a broker with ZooKeeper, and the warnings about other keys.

Two kinds of keys are valid without a row in the tables: keys of a listener (``listener.name.NAME.KEY``), and keys that
plug-ins read themselves, which Kafka passes on unread. The warning about a key that Kafka 4 removed says that.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from tidelog.config.coordinator_keys import COORDINATOR_KEYS
from tidelog.config.key import Key
from tidelog.config.log_keys import LOG_KEYS
from tidelog.config.node_keys import NODE_KEYS
from tidelog.config.plugin_keys import AUTHORIZER_KEYS, REPORTER_KEYS
from tidelog.config.quota_keys import REPLICATION_RATES
from tidelog.config.remote_keys import REMOTE_KEYS
from tidelog.config.replication_keys import REPLICATION_KEYS
from tidelog.config.security_keys import SECURITY_KEYS
from tidelog.config.server_keys import SERVER_KEYS
from tidelog.config.share_keys import SHARE_KEYS
from tidelog.config.streams_keys import STREAMS_KEYS
from tidelog.config.synonyms import TOPIC_SYNONYMS
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.zookeeper_keys import ZOOKEEPER_KEYS

BROKER_AREAS: Mapping[str, Mapping[str, Key]] = {
    "Log": LOG_KEYS,
    "Server": SERVER_KEYS,
    "Metrics reporters": REPORTER_KEYS,
    "Node and metadata quorum": NODE_KEYS,
    "Replication": REPLICATION_KEYS,
    "Coordinators": COORDINATOR_KEYS,
    "Share groups": SHARE_KEYS,
    "Streams groups": STREAMS_KEYS,
    "Tiered storage": REMOTE_KEYS,
    "Security": SECURITY_KEYS,
    "Access control": AUTHORIZER_KEYS,
}
"""The tables by subject."""

BROKER_KEYS: Mapping[str, Key] = {name: key for area in BROKER_AREAS.values() for name, key in area.items()}

ZOOKEEPER_BROKER_KEYS: Mapping[str, Key] = {**BROKER_KEYS, **ZOOKEEPER_KEYS}
"""The keys of a broker that keeps its metadata in ZooKeeper."""

PLUG_IN_KEYS = frozenset((*REPORTER_KEYS, *AUTHORIZER_KEYS))
"""Keys of plug-in classes that Kafka's settings name. Kafka itself does not define them."""

_LIKE_A_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_\-]*(\.[A-Za-z0-9_\-]+)+|[a-z]{1,20}")
_LONGEST_NAME = 200
_LISTENER_PREFIX = "listener.name."
_REMOVED_PREFIXES = ("zookeeper.", "password.encoder.")
_REMOVED = frozenset(
    (*ZOOKEEPER_KEYS, "group.coordinator.new.enable", "group.share.enable", "internal.metadata.max.fetch.size.in.bytes")
)


def listener_key(name: str) -> Key | None:
    """Return the key that ``listener.name.NAME.KEY`` (or ``.MECHANISM.KEY``) sets for a listener."""
    if not name.startswith(_LISTENER_PREFIX):
        return None
    _, _, rest = name.removeprefix(_LISTENER_PREFIX).partition(".")
    while rest and rest not in BROKER_KEYS:
        _, _, rest = rest.partition(".")
    return BROKER_KEYS.get(rest)


def broker_key(name: str, keys: Mapping[str, Key] = BROKER_KEYS) -> Key | None:
    """Return the key that ``name`` sets: a broker's, a listener's, or a replication rate (set only at run time).

    ``keys`` are the broker's.
    """
    return keys.get(name) or listener_key(name) or REPLICATION_RATES.get(name)


def looks_like_key(name: str) -> bool:
    """Return True if an unknown ``name`` may be shown.

    A secret that spans several lines of a properties file leaves lines that look like keys.
    """
    return len(name) <= _LONGEST_NAME and (_LIKE_A_KEY.fullmatch(name) is not None or bool(_near(name, BROKER_KEYS)))


def unknown_key_text(name: str, known: Iterable[str] = BROKER_KEYS) -> str:
    """Return the warning about a key that is not in ``known``."""
    if name in _REMOVED or name.startswith(_REMOVED_PREFIXES):
        return f"{name} has no effect: Kafka 4 removed it"
    if name in TOPIC_KEYS:
        synonyms = TOPIC_SYNONYMS.get(name, ())
        return f"{name} is a topic setting" + (f"; the broker's is {synonyms[0].name}" if synonyms else "")
    near = _near(name, known)
    return f"{name} is not a key of Kafka 4.4" + (f"; did you mean {near[0]}?" if near else "")


def _near(name: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(name, known, n=1, cutoff=0.8)
