"""The effect of a change on a resource's settings."""

from __future__ import annotations

import pytest

from tidelog.model import ConfigError
from tidelog.server.configs.changes import ChangeKind, SettingChange, changed, replaced
from tidelog.server.configs.resource_type import ResourceType

SET, DELETE, APPEND, SUBTRACT = ChangeKind
POLICY = "cleanup.policy"


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ({}, SettingChange("retention.ms", SET, "5"), {"retention.ms": "5"}),
        ({"retention.ms": "5"}, SettingChange("retention.ms", SET, "5"), {}),
        ({"retention.ms": "5"}, SettingChange("retention.ms", DELETE, None), {"retention.ms": None}),
        ({}, SettingChange("retention.ms", DELETE, None), {}),
        ({}, SettingChange(POLICY, APPEND, "compact"), {POLICY: "delete,compact"}),
        ({POLICY: "compact"}, SettingChange(POLICY, APPEND, "compact,delete"), {POLICY: "compact,delete"}),
        ({POLICY: "compact"}, SettingChange(POLICY, APPEND, "compact"), {}),
        ({POLICY: ""}, SettingChange(POLICY, APPEND, "compact"), {POLICY: "compact"}),
        ({}, SettingChange(POLICY, SUBTRACT, "delete"), {POLICY: ""}),
        ({POLICY: "compact,delete"}, SettingChange(POLICY, SUBTRACT, "compact,x"), {POLICY: "delete"}),
    ],
)
def test_a_topic(before: dict[str, str], change: SettingChange, after: dict[str, str | None]) -> None:
    assert changed(ResourceType.TOPIC, before, [change]) == after


@pytest.mark.parametrize(("key", "kind"), [("retention.ms", APPEND), ("retention.ms", SUBTRACT), ("colour", APPEND)])
def test_no_list(key: str, kind: ChangeKind) -> None:
    with pytest.raises(ConfigError) as caught:
        changed(ResourceType.TOPIC, {}, [SettingChange(key, kind, "1")])
    assert caught.value.message == f"Can't {kind.name} to key {key} because its type is not LIST."


def test_lists_of_other_resources() -> None:
    for resource_type, key in [
        (ResourceType.BROKER, "sasl.enabled.mechanisms"),
        (ResourceType.BROKER, "listener.name.inside.sasl.enabled.mechanisms"),
    ]:
        assert changed(resource_type, {key: "a"}, [SettingChange(key, APPEND, "b")]) == {key: "a,b"}
    for resource_type, key in [(ResourceType.CLIENT_METRICS, "metrics"), (ResourceType.GROUP, "share.isolation.level")]:
        with pytest.raises(ConfigError, match="its type is not LIST"):
            changed(resource_type, {}, [SettingChange(key, APPEND, "b")])


def test_a_broker_is_told_again_what_it_has() -> None:
    change = SettingChange("log.retention.ms", SET, "5")
    assert changed(ResourceType.BROKER, {"log.retention.ms": "5"}, [change]) == {"log.retention.ms": "5"}


def test_a_value_may_be_so_long() -> None:
    longest = SettingChange("colour", SET, "x" * 32_767)
    assert changed(ResourceType.BROKER, {}, [longest])
    with pytest.raises(ConfigError, match="exceeds the maximum value size of 32767 bytes"):
        changed(ResourceType.BROKER, {}, [longest._replace(value="x" * 32_768)])
    with pytest.raises(ConfigError, match="exceeds the maximum value size of 32767 bytes"):
        changed(ResourceType.BROKER, {}, [longest._replace(value="\N{EURO SIGN}" * 10_923)])


def test_a_list_takes_many_items() -> None:
    """Items are found by hash: a linear search would take hours."""
    many = [str(number) for number in range(200_000)]
    long = SettingChange(POLICY, APPEND, ",".join(["delete", *many, *many]))
    with pytest.raises(ConfigError, match="exceeds the maximum value size"):
        changed(ResourceType.TOPIC, {}, [long])
    before = {POLICY: ",".join(["compact", *reversed(many[:6000])])}
    assert changed(ResourceType.TOPIC, before, [long._replace(kind=SUBTRACT)]) == {POLICY: "compact"}


def test_an_item_goes_as_often_as_it_is_named() -> None:
    before = {POLICY: "a,b,a,c,a"}
    assert changed(ResourceType.TOPIC, before, [SettingChange(POLICY, SUBTRACT, "a,c,a")]) == {POLICY: "b,a"}


def test_all_settings_at_once() -> None:
    before = {"a": "1", "b": "2", "c": "3"}
    assert replaced(before, {"a": "1", "b": "9", "d": "4"}) == {"b": "9", "c": None, "d": "4"}
