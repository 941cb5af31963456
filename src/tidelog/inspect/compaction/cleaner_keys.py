"""The cleaner's own settings, as far as the cluster metadata has them.

``log.cleaner.enable`` and the values of ``server.properties`` are not in a log directory. Dynamic settings, such as
``log.cleaner.threads``, are in the metadata; without them, Kafka's defaults count. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.manager.survey.setting_sources import SettingSources

_PREFIX = "log.cleaner."
ENABLE_KEY = "log.cleaner.enable"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCleaner:
    """``set_keys`` are the keys with a value in the metadata. ``is_enabled`` is None if it is not among them."""

    settings: CleanerSettings
    set_keys: tuple[str, ...]
    is_enabled: bool | None


def known_cleaner(sources: SettingSources) -> KnownCleaner:
    """Return the settings of the broker whose log directory the sources belong to. Invalid values count as unset."""
    dynamic = sources.metadata.broker_settings
    texts = {**dynamic.get("", {}), **dynamic.get(str(sources.node_id), {}), **sources.file}
    own = {key: text for key, text in texts.items() if key.startswith(_PREFIX)}
    try:
        broker = BrokerConfig.load(None, own)
        return KnownCleaner(
            settings=CleanerSettings.of(broker),
            set_keys=tuple(sorted(own)),
            is_enabled=broker.flag(ENABLE_KEY) if ENABLE_KEY in own else None,
        )
    except ConfigError:
        return KnownCleaner(settings=CleanerSettings(), set_keys=(), is_enabled=None)
