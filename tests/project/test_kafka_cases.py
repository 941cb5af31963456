"""Kafka's own test cases: each has an entry in parity.toml, a test of tidelog or a reason why it does not apply."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from project.parity_page import BEHAVIOURS, KAFKA_CASE_NAMES, KAFKA_CASES, require_named_test
from project.tree import ROOT, load
from real_kafka.java import CACHE, ensure_jars

KAFKA_CLASS = re.compile(r"(?:org\.apache\.)?kafka(?:\.[a-z]+)+\.[A-Z]\w*Test")
CASE = re.compile(r"[a-z]\w+")
KINDS = ("test", "does_not_apply", "later")
MAX_NOT_APPLICABLE = 0.15
"""The largest share of a class's cases that may not apply."""


@pytest.mark.parametrize("kafka_class", KAFKA_CASE_NAMES)
def test_every_case_has_its_entry(kafka_class: str) -> None:
    rows = [case for case in KAFKA_CASES if case.kafka_class == kafka_class]
    assert [case.name for case in rows] == KAFKA_CASE_NAMES[kafka_class], "one entry a case, sorted by name"
    kinds = Counter(case.kind for case in rows)
    print(f"{kafka_class}: {', '.join(f'{kinds[kind]} {kind}' for kind in KINDS)}")
    assert kinds["does_not_apply"] <= MAX_NOT_APPLICABLE * len(rows)


@pytest.mark.parametrize("kafka_class", dict.fromkeys(row.kafka_class for row in KAFKA_CASES))
def test_an_entry_names_behaviours_and_a_test_or_gives_the_reason(kafka_class: str) -> None:
    assert KAFKA_CLASS.fullmatch(kafka_class), "not the name of a test class of Kafka's"
    known = {row.id: row.state for row in BEHAVIOURS}
    for case in KAFKA_CASES:
        if case.kafka_class == kafka_class:
            assert CASE.fullmatch(case.name), f"not the name of a test case: {case.name}"
            assert case.kind in KINDS, f"{case.name}: {case.kind}"
            if case.kind == "test":
                assert set(case.rows) <= set(known), case.name
                require_named_test(case.text)
                assert not any(known[row].startswith("later") for row in case.rows), case.name


@pytest.mark.kafka
def test_the_names_are_those_in_kafkas_jars() -> None:
    ensure_jars()
    script = load("scripts/kafka_test_cases.py")
    jars = sorted((CACHE / "kafka-cases-4.1.0").glob("*.jar"))
    assert len(jars) == 3
    cases = script.read_cases(jars)
    assert {name.rpartition(".")[2] for name in cases} == set(script.CLASSES)
    assert script.NAMES.read_text() == script.as_text(cases), "run scripts/kafka_test_cases.py"
    assert script.NAMES.parent == ROOT / "tests" / "project"
