"""The codec of znodes: Kafka's bytes, all older versions, and every kind of damage."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from golden_sets import DIRECTORY, ZOOKEEPER, captured_znodes
from server.metadata.zookeeper.znode_values import DECODERS, PATTERN, VALUES, encoded
from tidelog.model import ZnodeError
from tidelog.replication.registration_request import BrokerEndpoint, VersionRange
from tidelog.security.scram_credential import ScramCredential, ScramMechanism
from tidelog.server.authorization.acl import Acl, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.metadata.zookeeper.acl_znode import decode_acls
from tidelog.server.metadata.zookeeper.hash_order import properties_order, scala_order
from tidelog.server.metadata.zookeeper.scram_text import decode_scram, encode_scram
from tidelog.server.metadata.zookeeper.znodes import BrokerZnode, ConfigZnode, FeatureZnode, StateZnode, TopicZnode

TOPIC_ID = uuid.UUID("4f49494e-7f04-4d5a-a9c8-7177c97424a6")


def kind_of(path: str) -> str | None:
    """Return the codec of a path of the captured znodes, or None if the znode has none."""
    match path.split("/")[1:]:
        case ["brokers", "topics", _]:
            return "topic"
        case ["brokers", "topics", _, "partitions", _, "state"]:
            return "state"
        case ["brokers", "ids", _]:
            return "broker"
        case ["config", kind, _, *_] if kind != "changes":
            return "config"
        case ["kafka-acl", _, _] | ["kafka-acl-extended", _, _, _]:
            return "acls"
        case ["cluster", "id"]:
            return "cluster id"
        case ["latest_producer_id_block"]:
            return "producer ids"
        case [one] if one in ("controller", "controller_epoch", "feature"):
            return one.replace("_", " ")
    return None


def captured() -> list[tuple[str, str, bytes]]:
    live = json.loads((DIRECTORY / ZOOKEEPER / "live.json").read_text())
    znodes = {**captured_znodes(), **live}
    return [
        (kind, path, found["data"].encode())
        for path, found in znodes.items()
        if found["data"] and (kind := kind_of(path)) is not None
    ]


def test_kafkas_znodes_are_written_byte_for_byte() -> None:
    """The sequence of the ACLs in a znode has no meaning, so only theirs is compared after a sort."""
    seen = set()
    for kind, path, data in captured():
        again = encoded(kind, DECODERS[kind](path, data))
        if kind == "acls":
            assert sorted_acls(again) == sorted_acls(data), path
        else:
            assert again == data, path
        seen.add(kind)
    assert seen == DECODERS.keys()


def sorted_acls(data: bytes) -> str:
    value = json.loads(data)
    value["acls"].sort(key=json.dumps)
    return json.dumps(value)


@pytest.mark.parametrize("kind", DECODERS)
@given(data=st.data())
def test_what_is_written_is_read(kind: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[kind])
    assert DECODERS[kind]("/path", encoded(kind, value)) == value


class TestOlderVersions:
    def test_a_broker_of_0_8(self) -> None:
        data = b'{"jmx_port":9999,"timestamp":"1","host":"h","version":1,"port":9092}'
        assert BrokerZnode.decode("/p", data) == BrokerZnode(
            listeners=(BrokerEndpoint("PLAINTEXT", "h", 9092),), timestamp_ms=1, jmx_port=9999
        )

    def test_a_broker_of_0_9(self) -> None:
        data = b'{"version":2,"host":"h","port":1,"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://h:1","SSL://[::1]:2"]}'
        listeners = BrokerZnode.decode("/p", data).listeners
        assert listeners == (BrokerEndpoint("PLAINTEXT", "h", 1, 0), BrokerEndpoint("SSL", "::1", 2, 1))

    def test_a_broker_of_0_10_has_a_rack_and_named_listeners(self) -> None:
        data = (
            b'{"version":4,"host":null,"port":-1,"jmx_port":-1,"timestamp":"1","endpoints":["INSIDE://h:1"],'
            b'"rack":"r1","listener_security_protocol_map":{"INSIDE":"SASL_SSL"}}'
        )
        broker = BrokerZnode.decode("/p", data)
        assert broker.rack == "r1"
        assert broker.listeners == (BrokerEndpoint("INSIDE", "h", 1, 3),)

    def test_features_of_a_broker_of_2_7(self) -> None:
        data = (
            b'{"version":5,"host":null,"port":-1,"jmx_port":-1,"timestamp":"1","endpoints":[],'
            b'"features":{"f":{"min_version":1,"first_active_version":2,"max_version":3}}}'
        )
        assert BrokerZnode.decode("/p", data).features == {"f": VersionRange(1, 3)}

    @pytest.mark.parametrize("version", [1, 2])
    def test_a_topic_without_an_id(self, version: int) -> None:
        data = json.dumps({"version": version, "partitions": {"0": [1, 2], "1": [2]}}).encode()
        assert TopicZnode.decode("/p", data) == TopicZnode(topic_id=None, replicas={0: (1, 2), 1: (2,)})

    def test_features_of_2_7(self) -> None:
        data = b'{"version":1,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":3}}}'
        assert FeatureZnode.decode("/p", data) == FeatureZnode(is_enabled=True, levels={"f": 3})

    def test_settings_without_data(self) -> None:
        assert ConfigZnode.decode("/p", b"") == ConfigZnode({})

    def test_operations_in_any_case(self) -> None:
        data = (
            b'{"version":1,"acls":[{"host":"*","permissionType":"deny","operation":"idempotentWRITE",'
            b'"principal":"User:a"}]}'
        )
        acl = Acl(PATTERN, "User:a", "*", Operation.IDEMPOTENT_WRITE, Permission.DENY)
        assert decode_acls("/p", data, PATTERN) == [acl]


class TestKafkasSequences:
    """Expected values that Kafka 3.9.1 wrote (``Znodes.java``)."""

    def test_partitions(self) -> None:
        assert scala_order(map(str, range(50))) == [
            *map(str, range(44, 50)),
            *map(str, range(10, 20)),
            *map(str, range(10)),
            *map(str, range(20, 44)),
        ]

    def test_settings(self) -> None:
        wanted = (
            "17 39 16 38 19 18 13 35 12 34 15 37 14 36 31 30 11 33 10 32 28 27 29 24 23 26 25 2 20 1 0 22 21 6 5 4 3 9"
            " 8 7"
        )
        assert properties_order(f"key.{number}" for number in range(40)) == [f"key.{n}" for n in wanted.split()]

    def test_keys_of_one_bucket(self) -> None:
        assert scala_order(["0", "12705576"]) == ["12705576", "0"]
        keys = "k90 k18 k409 k29 k508 k519 k0 k1 k2 k3 k4 k5 k6 k7"
        assert " ".join(properties_order(keys.split(" "))) == "k409 k90 k508 k519 k0 k1 k2 k3 k4 k5 k6 k7 k29 k18"

    def test_a_recovering_partition(self) -> None:
        state = StateZnode(leader=3, leader_epoch=5, controller_epoch=9, isr=(3, 1), is_recovering=True)
        assert state.encode() == (
            b'{"controller_epoch":9,"leader":3,"version":1,"leader_recovery_state":1,"leader_epoch":5,"isr":[3,1]}'
        )

    def test_a_reassignment(self) -> None:
        topic = TopicZnode(topic_id=TOPIC_ID, replicas={0: (1, 2)}, adding={0: (2,)}, removing={0: (1,), 1: ()})
        assert topic.encode() == (
            b'{"partitions":{"0":[1,2]},"topic_id":"T0lJTn8ETVqpyHF3yXQkpg","adding_replicas":{"0":[2]},'
            b'"removing_replicas":{"0":[1]},"version":3}'
        )

    def test_escapes_are_jacksons(self) -> None:
        data = ConfigZnode({"a": 'ü\x01\x1f"\\/\n\x7f<😀'}).encode()
        assert data == '{"version":1,"config":{"a":"ü\\u0001\\u001F\\"\\\\/\\n\x7f<\\uD83D\\uDE00"}}'.encode()


class TestDamage:
    @pytest.mark.parametrize(
        ("kind", "text", "words"),
        [
            ("topic", "", "no valid JSON: b''"),
            ("topic", "{", "no valid JSON: b'{'"),
            ("topic", "[" * 100_000, "no valid JSON"),
            ("topic", "[1]", "the data is [1], which is not a JSON object"),
            ("topic", '{"partitions":{}}', "version is missing"),
            ("topic", '{"version":4,"partitions":{}}', "version 4 is not known, only 1, 2, 3"),
            ("topic", '{"version":"3","partitions":{}}', "version is '3', which is not a number"),
            ("topic", '{"version":true,"partitions":{}}', "version is True, which is not a number"),
            ("topic", '{"version":3}', "partitions is missing"),
            ("topic", '{"version":3,"partitions":[]}', "partitions is [], which is not a JSON object"),
            ("topic", '{"version":3,"partitions":{"-1":[1]}}', "'-1', which is not a partition number"),
            ("topic", '{"version":3,"partitions":{"01":[1]}}', "'01', which is not a partition number"),
            ("topic", '{"version":3,"partitions":{"9999999999":[1]}}', "which is not a partition number"),
            ("topic", '{"version":3,"partitions":{"0":["1"]}}', "partitions 0 is '1', which is not a number"),
            ("topic", '{"version":3,"partitions":{"0":1}}', "partitions 0 is 1, which is not an array"),
            ("topic", '{"version":3,"partitions":{},"topic_id":"x"}', "topic_id is 'x', which is not an id"),
            ("state", '{"version":1,"leader_epoch":0,"isr":[]}', "leader is missing"),
            ("state", '{"version":1,"leader":1.5,"leader_epoch":0,"isr":[]}', "leader is 1.5"),
            ("state", '{"version":1,"leader":99999999999,"leader_epoch":0,"isr":[]}', "leader is 99999999999"),
            ("state", '{"version":1,"leader":1,"leader_epoch":-1,"isr":[]}', "leader_epoch is -1"),
            ("config", '{"version":2,"config":{}}', "version 2 is not known, only 1"),
            ("config", '{"version":1,"config":{"a":1}}', "config a is 1, which is not a text"),
            ("config", '{"version":1,"config":{"a":"\\ud800"}}', "which is not a text"),
            ("config", '{"version":1,"config":{"\\ud800":"a"}}', "which is not a text"),
            ("broker", '{"version":6}', "version 6 is not known"),
            ("broker", '{"version":2,"timestamp":"1","endpoints":["h:1"]}', "'h:1' is not a listener"),
            ("broker", '{"version":2,"timestamp":"1","endpoints":["X://h:1"]}', "with a security protocol"),
            ("controller epoch", "x", "b'x' is not an epoch"),
            ("cluster id", '{"version":1,"id":"x"}', "version is 1, which is not a text"),
            ("cluster id", '{"version":"2","id":"x"}', "version 2 is not known"),
            ("producer ids", '{"version":1,"broker":1,"block_start":"a","block_end":"1"}', "block_start is 'a'"),
            ("producer ids", '{"version":1,"broker":1,"block_start":"0","block_end":"-1"}', "block_end is -1"),
            ("feature", '{"version":2,"status":2,"features":{}}', "status is 2"),
            ("feature", '{"version":2,"status":1,"features":{"f":3}}', "f is 3, which is not a JSON object"),
            ("acls", '{"version":1,"acls":[{"host":"*"}]}', "acls principal is missing"),
            ("acls", '{"version":1,"acls":[{"principal":"a"}]}', "'a', which has no type before a colon"),
            (
                "acls",
                '{"version":1,"acls":[{"principal":"U:a","host":"*","operation":"Fly","permissionType":"Allow"}]}',
                "operation is 'Fly', which is not known",
            ),
        ],
    )
    def test_the_znode_and_the_field_are_named(self, kind: str, text: str, words: str) -> None:
        with pytest.raises(ZnodeError) as raised:
            DECODERS[kind]("/brokers/x", text.encode())
        assert "znode /brokers/x" in str(raised.value)
        assert words in str(raised.value)
        assert len(str(raised.value)) < 300

    @pytest.mark.parametrize("kind", DECODERS)
    @given(data=st.binary(max_size=60))
    @example(data=b"\xff")
    def test_any_bytes(self, kind: str, data: bytes) -> None:
        check_decoding(kind, data)

    @pytest.mark.parametrize("kind", DECODERS)
    @given(data=st.data())
    def test_any_value_in_any_place(self, kind: str, data: st.DataObject) -> None:
        """Replace, remove or add a value somewhere in a valid znode."""
        value = json.loads(encoded(kind, data.draw(VALUES[kind])))
        check_decoding(kind, json.dumps(damaged(value, data)).encode())


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["\ud800", "1", "-1", 1, 2, 3]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def damaged(value: Any, data: st.DataObject) -> Any:
    if isinstance(value, dict) and value and data.draw(st.integers(0, 3)):
        key = data.draw(st.sampled_from(sorted(value)))
        if data.draw(st.integers(0, 4)) == 0:
            return {name: one for name, one in value.items() if name != key}
        return {**value, key: damaged(value[key], data)}
    if isinstance(value, list) and value and data.draw(st.integers(0, 3)):
        at = data.draw(st.integers(0, len(value) - 1))
        return [*value[:at], damaged(value[at], data), *value[at + 1 :]]
    return data.draw(JSON)


def check_decoding(kind: str, data: bytes) -> None:
    """Check that the data is refused, or that the decoded value can be encoded and decoded again."""
    problem, value = "znode /path", None
    try:
        value = DECODERS[kind]("/path", data)
    except ZnodeError as error:
        problem = str(error)
    assert "znode /path" in problem
    if value is not None:
        again = DECODERS[kind]("/path", encoded(kind, value))
        assert (sorted(set(value)) if kind == "acls" else value) == again


class TestScram:
    @given(st.binary(min_size=1), st.binary(min_size=1), st.binary(min_size=1), st.integers(1, 2**29))
    def test_what_is_written_is_read(self, salt: bytes, stored: bytes, server: bytes, iterations: int) -> None:
        credential = ScramCredential(
            mechanism=ScramMechanism.SHA_512, iterations=iterations, salt=salt, stored_key=stored, server_key=server
        )
        assert decode_scram(ScramMechanism.SHA_512, encode_scram(credential)) == credential

    def test_kafkas_text(self) -> None:
        text = captured_znodes()["/config/users/alice"]["data"]
        for name, value in json.loads(text)["config"].items():
            if name.startswith("SCRAM"):
                mechanism = ScramMechanism[name.removeprefix("SCRAM-").replace("-", "_")]
                assert encode_scram(decode_scram(mechanism, value)) == value

    @given(st.text(st.sampled_from("salt=,storedkyverin1A+/")) | st.text())
    @example("salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=0")
    @example("salt=,stored_key=YQ==,server_key=YQ==,iterations=1")
    @example("salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=1,salt=YQ==")
    def test_any_text_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"base64|iterations"):
            decode_scram(ScramMechanism.SHA_256, text)
