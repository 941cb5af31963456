"""Rules for changing a broker's configuration while it runs.

===========================  =======================================================================================
a change for one broker      allowed for every dynamic key
a change for all brokers     allowed for dynamic keys, except those of listeners and their security
a key that needs a restart   refused
SSL keys                     only for a listener (``listener.name.NAME.ssl.…``)
thread pools                 at most doubled or halved at a time
None as the value            removes the earlier change
===========================  =======================================================================================

The caller applies a new value: it opens listeners or starts threads. The functions are pure. Source: Kafka's
``DynamicBrokerConfig``, ``DynamicThreadPool``, ``DynamicLogConfig``, ``LogCleaner``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.config.broker_keys import BROKER_KEYS, listener_key
from tidelog.config.checks import BROKER_RETENTION, Values, check_copy_lag, check_local_retention, check_thread_changes
from tidelog.config.key import Key, UpdateMode
from tidelog.config.security_keys import STORE_KEYS
from tidelog.model import ConfigError


def check_names(names: Iterable[str], *, cluster_wide: bool, keys: Mapping[str, Key] = BROKER_KEYS) -> None:
    """Raise ConfigError for keys that may not change.

    ``cluster_wide`` means a change for every broker. ``keys`` are the broker's.
    """
    names = tuple(names)
    fixed = [name for name in names if name in keys and not keys[name].is_dynamic]
    _refuse(fixed, "Cannot update these configs dynamically")
    of_a_listener = [name for name in names if name in STORE_KEYS]
    _refuse(
        of_a_listener, "These security configs can be dynamically updated only per-listener using the listener prefix"
    )
    if cluster_wide:
        of_one = [name for name in names if _is_per_broker(name)]
        _refuse(of_one, "Cannot update these configs at default cluster level, broker id must be specified")


def check_change(before: Values, after: Values, *, retention_ms: int) -> None:
    """Raise ConfigError if new values conflict with the old ones or with each other.

    ``retention_ms`` is the topics' default after the change, whichever key sets it.
    """
    check_thread_changes(before, after)
    retentions = {**after, "log.retention.ms": retention_ms}
    check_local_retention(retentions, BROKER_RETENTION)
    check_copy_lag(retentions, BROKER_RETENTION)


def _is_per_broker(name: str) -> bool:
    key = BROKER_KEYS.get(name) or listener_key(name)
    return key is not None and (key.mode is UpdateMode.PER_BROKER or (name not in BROKER_KEYS and not key.is_dynamic))


def _refuse(names: list[str], reason: str) -> None:
    if names:
        raise ConfigError(f"{reason}: [{', '.join(names)}]")
