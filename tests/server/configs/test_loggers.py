"""Levels of Python's loggers under Kafka's names."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tidelog.protocol.errors import ApiError
from tidelog.server.configs.changes import ChangeKind, SettingChange
from tidelog.server.configs.loggers import alter_loggers, described_loggers

PARENT, CHILD = "tests.loggers", "tests.loggers.child"


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    for name in (PARENT, CHILD):
        logging.getLogger(name).setLevel(logging.NOTSET)
    yield
    for name in (PARENT, CHILD):
        logging.getLogger(name).setLevel(logging.NOTSET)


def level(name: str) -> str | None:
    (found,) = described_loggers([name])
    return found["value"]


def change(name: str, value: str | None, kind: ChangeKind = ChangeKind.SET) -> list[SettingChange]:
    return [SettingChange(name, kind, value)]


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (50, "FATAL"),
        (60, "FATAL"),
        (40, "ERROR"),
        (30, "WARN"),
        (25, "INFO"),
        (10, "DEBUG"),
        (5, "TRACE"),
        (1, "TRACE"),
    ],
)
def test_names_of_levels(number: int, name: str) -> None:
    logging.getLogger(CHILD).setLevel(number)
    assert level(CHILD) == name


def test_a_level_holds_for_what_is_below() -> None:
    alter_loggers(change(PARENT, "DEBUG"), validate_only=False)
    assert (level(PARENT), level(CHILD)) == ("DEBUG", "DEBUG")
    alter_loggers(change(CHILD, "FATAL"), validate_only=False)
    assert (level(PARENT), level(CHILD)) == ("DEBUG", "FATAL")
    alter_loggers(change(CHILD, None, ChangeKind.DELETE), validate_only=False)
    assert level(CHILD) == "DEBUG"


def test_names_that_only_others_are_below_count() -> None:
    logging.getLogger("tests.packages.one")
    alter_loggers(change("tests.packages", "TRACE"), validate_only=False)
    assert level("tests.packages.one") == "TRACE"
    logging.getLogger("tests.packages").setLevel(logging.NOTSET)


def test_all_or_none() -> None:
    alter_loggers(change(PARENT, "INFO"), validate_only=False)
    with pytest.raises(ApiError, match=r"no\.such\.logger does not exist"):
        alter_loggers(change(PARENT, "ERROR") + change("no.such.logger", "INFO"), validate_only=False)
    alter_loggers(change(PARENT, "ERROR"), validate_only=True)
    assert level(PARENT) == "INFO"
