"""Which of the layers of a broker's configuration wins, and what stands in each."""

from __future__ import annotations

import pytest

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.origin import OriginKind
from tidelog.model import ConfigError

KEY = "log.retention.ms"


def test_this_broker_goes_before_all_brokers() -> None:
    start = BrokerConfig.load(None, {KEY: "1"})
    of_all = start.with_changes({KEY: "2"}, of_all=True)
    own = of_all.with_changes({KEY: "3"})
    later = own.with_changes({KEY: "4"}, of_all=True)
    assert [config[KEY] for config in (start, of_all, own, later)] == [1, 2, 3, 3]
    assert of_all.origin(KEY).kind is OriginKind.DYNAMIC_DEFAULT
    assert later.origin(KEY).kind is OriginKind.DYNAMIC
    assert later.with_changes({KEY: None})[KEY] == 4


def test_a_layer_is_taken_as_a_whole() -> None:
    start = BrokerConfig.load().with_changes({KEY: "3", "log.roll.ms": "5"})
    after = start.with_dynamic({"log.roll.ms": "6"})
    assert (after[KEY], after["log.roll.ms"]) == (None, 6)
    assert after.with_dynamic({}) == BrokerConfig.load()
    assert start.with_dynamic({KEY: "9"}, of_all=True)[KEY] == 3


def test_rates_of_replication_are_numbers() -> None:
    name = "leader.replication.throttled.rate"
    changed = BrokerConfig.load().with_changes({name: "5"})
    assert not changed.warnings
    with pytest.raises(ConfigError, match=f"Invalid value x for configuration {name}: Not a number of type LONG"):
        changed.with_changes({name: "x"})
