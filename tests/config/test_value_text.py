"""Texts of values: a written value is read back, and a text of another type is refused."""

from __future__ import annotations

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.config.broker_keys import BROKER_KEYS
from tidelog.config.key import Key
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.value_text import INTEGER_BITS, KeyType, Password, format_value, parse_value
from tidelog.model import ConfigError

WORDS = st.text(st.characters(min_codepoint=0x21, exclude_characters=","), min_size=1)


@pytest.mark.parametrize("key_type", INTEGER_BITS)
def test_integers(key_type: KeyType) -> None:
    end = 1 << (INTEGER_BITS[key_type] - 1)
    for number in (-end, -1, 0, end - 1):
        assert parse_value(f" {number}\t", key_type) == number == parse_value(format_value(number), key_type)
    for text in (str(end), str(-end - 1), "", "1_0", "1.0", "٣", "0x1", "9" * 5000):
        with pytest.raises(ValueError, match=f"^Not a number of type {key_type}$"):
            parse_value(text, key_type)


@given(st.floats())
def test_doubles(number: float) -> None:
    read = parse_value(format_value(number), KeyType.DOUBLE)
    assert read == number or (isinstance(read, float) and math.isnan(read) and math.isnan(number))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (1e7, "1.0E7"),
        (-12345678.5, "-1.23456785E7"),
        (1e22, "1.0E22"),
        (sys.float_info.max, "1.7976931348623157E308"),
        (math.inf, "Infinity"),
    ],
)
def test_doubles_are_written_as_java_does(number: float, text: str) -> None:
    assert format_value(number) == text


@pytest.mark.parametrize("text", ["", "x", "1,5", "1e", "inf", "nan", "1_0", "--1"])
def test_no_doubles(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Not a number of type DOUBLE$"):
        parse_value(text, KeyType.DOUBLE)


@given(st.lists(WORDS))
def test_lists(items: list[str]) -> None:
    assert parse_value(format_value(tuple(items)), KeyType.LIST) == tuple(items)
    assert parse_value("  " + " , ".join(items) + "\n", KeyType.LIST) == tuple(items)


@given(st.booleans(), st.sampled_from([str.upper, str.lower, str.title]))
def test_booleans(flag: bool, case: object) -> None:
    assert callable(case)
    assert parse_value(case(format_value(flag)), KeyType.BOOLEAN) is flag
    with pytest.raises(ValueError, match="either true or false"):
        parse_value("1", KeyType.BOOLEAN)


@given(st.text(), st.sampled_from(KeyType))
def test_any_text_is_read_or_refused(text: str, key_type: KeyType) -> None:
    try:
        value = parse_value(text, key_type)
    except ValueError:
        return
    if not isinstance(value, Password):
        again = parse_value(format_value(value), key_type)
        assert again == value or again != again


def test_passwords_are_not_shown() -> None:
    password = parse_value(" swordfish ", KeyType.PASSWORD)
    assert isinstance(password, Password)
    assert password.text == "swordfish"
    assert {repr(password), str(password), format_value(password), f"{password}"} == {"[hidden]"}


@pytest.mark.parametrize("key", [*TOPIC_KEYS.values(), *BROKER_KEYS.values()], ids=lambda key: key.name)
def test_every_default_is_a_value_of_its_key(key: Key) -> None:
    assert key.doc.endswith(".")
    if key.default is not None and key.default != ():
        assert key.parse(key.default_text) == key.default


def test_values_that_no_text_was_read_for() -> None:
    TOPIC_KEYS["segment.ms"].check(1 << 62)
    with pytest.raises(ConfigError, match=r"Invalid value 2147483648 for configuration max.message.bytes: Not"):
        TOPIC_KEYS["max.message.bytes"].check(1 << 31)
