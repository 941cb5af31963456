"""The layers of a broker's configuration: their contents and their precedence."""

from __future__ import annotations

import pytest

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.origin import OriginKind
from tidelog.model import ConfigError

KEY = "log.retention.ms"


def test_this_broker_goes_before_all_brokers() -> None:
    start = BrokerConfig.load(None, {KEY: "1"})
    of_all = start.with_changes({KEY: "2"}, cluster_wide=True)
    own = of_all.with_changes({KEY: "3"})
    later = own.with_changes({KEY: "4"}, cluster_wide=True)
    assert [config[KEY] for config in (start, of_all, own, later)] == [1, 2, 3, 3]
    assert of_all.origin(KEY).kind is OriginKind.DYNAMIC_DEFAULT
    assert later.origin(KEY).kind is OriginKind.DYNAMIC
    assert later.with_changes({KEY: None})[KEY] == 4


def test_a_layer_is_taken_as_a_whole() -> None:
    start = BrokerConfig.load().with_changes({KEY: "3", "log.roll.ms": "5"})
    after = start.with_dynamic({"log.roll.ms": "6"})
    assert (after[KEY], after["log.roll.ms"]) == (None, 6)
    assert after.with_dynamic({}) == BrokerConfig.load()
    assert start.with_dynamic({KEY: "9"}, cluster_wide=True)[KEY] == 3


def test_rates_of_replication_are_numbers() -> None:
    name = "leader.replication.throttled.rate"
    changed = BrokerConfig.load().with_changes({name: "5"})
    assert not changed.warnings
    with pytest.raises(ConfigError, match=f"Invalid value x for configuration {name}: Not a number of type LONG"):
        changed.with_changes({name: "x"})


def test_what_was_changed_before_a_start_is_not_compared_with_the_file() -> None:
    start = BrokerConfig.load(None, {"num.io.threads": "8"})
    with pytest.raises(ConfigError, match="should not be greater than double"):
        start.with_dynamic({"num.io.threads": "32"})
    restored = start.with_dynamic_layers({"log.roll.ms": "5"}, {"num.io.threads": "32"})
    assert (restored["num.io.threads"], restored["log.roll.ms"]) == (32, 5)
    assert restored.with_dynamic_layers({}, {}) == start
    with pytest.raises(ConfigError, match=r"Cannot update these configs dynamically: \[log\.dirs\]"):
        start.with_dynamic_layers({"log.dirs": "/x"}, {})
