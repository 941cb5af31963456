"""Rules between settings, in addition to the range of each.

The functions are pure and raise ConfigError in Kafka's words. Topics follow ``LogConfig.validateValues`` and, with
tiered storage, ``validateTopicLogConfigValues``. Brokers follow the storage part of ``KafkaConfig.validateValues``.
Run-time changes follow ``DynamicLogConfig``, ``DynamicThreadPool`` and, for the cleaner's threads, ``LogCleaner``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.config.valid import invalid_value
from tidelog.config.value_text import Value
from tidelog.model import ConfigError

_MIB = 1024 * 1024
_AS_RETENTION = -2
"""The value of ``local.retention.*`` that stands for the value of ``retention.*``."""
ALL_LOG_DIRS = "*"
"""The value of ``cordoned.log.dirs`` for all directories. No other value may stand next to it."""

_DISABLED_WITHOUT_DELETION = (
    "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data and turn"
    " to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable remote"
    " storage and delete all remote data, please set"
    " `remote.storage.enable=false,remote.log.delete.on.disable=true`."
)
"""Kafka's complete message, because people search for it."""

THREAD_KEYS = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)

_CLEANER_THREADS = "log.cleaner.threads"

Values = Mapping[str, Value | None]


class RetentionNames(NamedTuple):
    """The keys of one kind of retention: total, on the local disk, and until a segment is copied to remote storage."""

    retention: str
    local: str
    copy_lag: str


TOPIC_RETENTION = (
    RetentionNames("retention.bytes", "local.retention.bytes", "remote.copy.lag.bytes"),
    RetentionNames("retention.ms", "local.retention.ms", "remote.copy.lag.ms"),
)
BROKER_RETENTION = (
    RetentionNames("log.retention.ms", "log.local.retention.ms", "log.remote.copy.lag.ms"),
    RetentionNames("log.retention.bytes", "log.local.retention.bytes", "log.remote.copy.lag.bytes"),
)


def check_topic(values: Values) -> None:
    """Raise ConfigError if the settings of a topic contradict each other. ``values`` has every topic setting."""
    low, high = number(values, "min.compaction.lag.ms"), number(values, "max.compaction.lag.ms")
    if low > high:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )


def check_tiered_topic(values: Values, *, was_tiered: bool, system_is_tiered: bool) -> None:
    """Raise ConfigError if a setting contradicts tiered storage. ``was_tiered`` is the state before this change."""
    if not values["remote.storage.enable"]:
        if was_tiered and not values["remote.log.delete.on.disable"]:
            raise ConfigError(_DISABLED_WITHOUT_DELETION)
        return
    if not system_is_tiered:
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker."
            " Topic cannot be configured with remote log storage."
        )
    if values["cleanup.policy"] not in ((), ("delete",)):
        raise ConfigError(
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
        )
    check_local_retention(values, TOPIC_RETENTION)
    check_copy_lag(values, TOPIC_RETENTION)
    if values["remote.log.copy.disable"]:
        for names in TOPIC_RETENTION:
            if number(values, names.local) not in (_AS_RETENTION, number(values, names.retention)):
                raise ConfigError(
                    f"When `remote.log.copy.disable` is set to true, the `{names.local}` and `{names.retention}` must"
                    " be set to the identical value because there will be no more logs copied to the remote storage."
                )


def check_local_retention(values: Values, names: tuple[RetentionNames, ...]) -> None:
    """Raise ConfigError if the local disk would keep more than the total retention."""
    for key, local_key, _ in names:
        whole, local = number(values, key), number(values, local_key)
        if whole < 0 or local == _AS_RETENTION:
            continue
        if local == -1:
            raise ConfigError(
                f"Invalid value -1 for configuration {local_key}: Value must not be -1 as {key} value is set as"
                f" {whole}."
            )
        if local > whole:
            raise ConfigError(
                f"Invalid value {local} for configuration {local_key}: Value must not be more than {key} property"
                f" value: {whole}"
            )


def check_copy_lag(values: Values, names: tuple[RetentionNames, ...]) -> None:
    """Raise ConfigError if the copy lag would keep a segment local for longer than the local retention."""
    for key, local_key, lag_key in names:
        local, lag = number(values, local_key), number(values, lag_key)
        effective = number(values, key) if local == _AS_RETENTION else local
        if lag > 0 and 0 <= effective < lag:
            raise ConfigError(
                invalid_value(lag_key, str(lag), f"Value must not exceed {local_key} (effective value: {effective})")
            )


def check_broker(values: Values, topic_defaults: Mapping[str, Value], log_dirs: tuple[str, ...]) -> None:
    """Raise ConfigError if the settings of a broker contradict each other. ``values`` has every broker key."""
    _check_ids(values)
    if number(topic_defaults, "segment.ms") < 1:
        raise ConfigError("log.roll.ms must be greater than or equal to 1")
    if number(topic_defaults, "segment.jitter.ms") < 0:
        raise ConfigError("log.roll.jitter.ms must be greater than or equal to 0")
    if number(topic_defaults, "retention.ms") == 0:
        raise ConfigError("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    threads = number(values, _CLEANER_THREADS)
    if threads < 1:
        raise ConfigError("log.cleaner.threads must be at least 1; log.cleaner.enable=false turns the cleaner off")
    if number(values, "log.cleaner.dedupe.buffer.size") // threads <= _MIB:
        raise ConfigError("log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")
    _check_cordoned(values["cordoned.log.dirs"], log_dirs)
    _check_topic_defaults(values, topic_defaults)


def check_thread_changes(old: Values, new: Values) -> None:
    """Raise ConfigError if a change more than doubles a thread pool, or reduces it to less than half."""
    for key in THREAD_KEYS:
        before, after = number(old, key), number(new, key)
        failed = f"Dynamic thread count update validation failed for {key}={after}"
        if after < before // 2:
            raise ConfigError(f"{failed}, value should be at least half the current value {before}")
        if after > before * 2:
            raise ConfigError(f"{failed}, value should not be greater than double the current value {before}")
    _check_cleaner_threads(number(old, _CLEANER_THREADS), number(new, _CLEANER_THREADS))


def number(values: Values, key: str) -> int:
    value = values[key]
    assert isinstance(value, int), key
    return value


def _check_cleaner_threads(before: int, after: int) -> None:
    """Apply the rule for thread pools with the messages of Kafka's ``LogCleaner``."""
    if after < before // 2:
        raise ConfigError(f"Log cleaner threads cannot be reduced to less than half the current value {before}")
    if after > before * 2:
        raise ConfigError(f"Log cleaner threads cannot be increased to more than double the current value {before}")


def _check_ids(values: Values) -> None:
    """Raise ConfigError if the two names of the node's id have different values.

    The caller copies ``node.id`` to ``broker.id`` if only ``node.id`` is set.
    """
    node_id, broker_id = values["node.id"], values["broker.id"]
    if node_id is not None and broker_id != node_id:
        raise ConfigError(
            "`node.id` and `broker.id` must be set to the same value. `broker.id` is deprecated, please use `node.id`"
            " instead."
        )


def _check_cordoned(cordoned: Value | None, log_dirs: tuple[str, ...]) -> None:
    assert isinstance(cordoned, tuple), cordoned
    if ALL_LOG_DIRS in cordoned:
        if len(cordoned) > 1:
            raise ConfigError("When cordoned.log.dirs is set to *, it must not contain other values")
        return
    missing = [path for path in cordoned if path not in log_dirs]
    if missing:
        raise ConfigError(
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries :"
            f" {', '.join(missing)}"
        )


def _check_topic_defaults(values: Values, topic_defaults: Mapping[str, Value]) -> None:
    """Apply the checks that a broker makes when its log manager starts."""
    check_topic(topic_defaults)
    if values["remote.log.storage.system.enable"]:
        check_local_retention(topic_defaults, TOPIC_RETENTION)
