"""``subscribePattern`` on topic names, in Java's syntax."""

from __future__ import annotations

import pytest

from tidelog.model import ConfigError
from tidelog.spark.read.java_pattern import compile_java_pattern

TOPICS = ("flights", "flights-eos", "Flights", "a.b", "aab", "__consumer_offsets", "x_1", "topic-12", "abab", "q", "0")
PATTERNS = (
    "flights",
    "flights.*",
    r"\Qa.b\E",
    r"\Qa.",
    r"(?<name>a|b)\k<name>b",
    r"(?:ab)++",
    r"(?>a*)b",
    r"\p{Lower}+",
    r"\p{Upper}\p{L}*",
    r"\P{Alpha}+.*",
    r"[\p{Alpha}_]+",
    r"\p{IsDigit}+",
    r"[^.]+\z",
    r"(?i)FLIGHTS",
    r"(?i:FL)ights",
    r"^\w+$",
    r"\w+\d",
    r"topic-\d{2,}",
    r"(?!__).*",
    r".*(?<=eos)",
    r"\x61\x{61}b",
    r"[a-q&]+",
    r"[a-z]{1}|\d",
    r"(?x) a . b",
    r".*\Z",
)
"""Patterns that test_source.py also compares with Java's own matcher."""


def test_what_topics_a_pattern_takes() -> None:
    def topics(pattern: str) -> list[str]:
        return [topic for topic in TOPICS if compile_java_pattern(pattern).search(topic)]

    assert topics(r"\Qa.b\E") == ["a.b"]
    assert topics(r"(?<name>a|b)\k<name>b") == ["aab"]
    assert topics(r"^\p{Lower}+$") == ["flights", "aab", "abab", "q"]
    assert topics(r"flights") == ["flights", "flights-eos"]
    assert topics(r"^flights$") == ["flights"]
    assert topics(r"^[\p{Alpha}_]+$") == ["flights", "Flights", "aab", "__consumer_offsets", "abab", "q"]


@pytest.mark.parametrize(
    "pattern",
    [r"[a-z&&[^b]]+", r"[a[bc]]", r"\R", r"\p{Greek}", r"\p{InGreek}", r"[\P{Alpha}]", "(", "*", "[a", "a(?i)b"],
)
def test_what_python_lacks_is_said(pattern: str) -> None:
    with pytest.raises(ConfigError, match="subscribePattern"):
        compile_java_pattern(pattern)
