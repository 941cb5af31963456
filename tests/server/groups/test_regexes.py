"""Subscriptions by regular expression: RE2's syntax, matched with topics outside of heartbeats."""

from __future__ import annotations

import pytest

from server.groups.shard_harness import Consumer, MemoryTopics, ShardHarness, settle
from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.pattern.syntax import PatternError
from tidelog.server.groups.pattern.topic_pattern import TopicPattern

# Expression, a matching name, a different name.
MATCHES = [
    (r"foo.*", "foo-bar", "a-foo"),
    (r"foo", "foo", "foo1"),
    (r"^a|b$", "b", "ab"),
    (r"(a|b)+c?", "abbac", "abcc"),
    (r"(?i)FOO", "fOo", "fo"),
    (r"(?i:f)oo", "Foo", "FOO"),
    (r"\w+", "a_1", "a-1"),
    (r"\D+", "a-b", "a1"),
    (r"[[:alpha:]_]+", "a_b", "a.b"),
    (r"[^-.]+", "a_b", "a.b"),
    (r"\pL+", "abc", "ab1"),
    (r"\P{Lu}+", "a.1", "A"),
    (r"a{2,3}b?", "aaab", "a"),
    (r"a{2,}", "aaaa", "a"),
    (r"\Qa.b\E.", "a.bc", "axbc"),
    (r"\x61\142", "ab", "ba"),
    (r"a\b-\bb", "a-b", "a_b"),
    (r"a\Bb", "ab", "a-b"),
    (r"[]a]+", "aa", "b"),
    (r"[a-c\-]+", "a-c", "d"),
    (r"(?P<name>x)y", "xy", "x"),
    (r"(a*)*b", "aaaab", "aaaa"),
    (r"", "", "a"),
    (r"colou?r", "color", "colouur"),
    (r"[a-]+", "a-a", "b"),
    ("(a)" * 101, "a" * 101, "a"),
]

# Expression, RE2/J's error message.
MISTAKES = [
    (r"(", "missing closing )"),
    (r"[a", "missing closing ]"),
    (r"*a", "missing argument to repetition operator"),
    (r"a**", "invalid nested repetition operator"),
    (r"a{3,2}", "invalid repeat count"),
    (r"a{1001}", "invalid repeat count"),
    ("a{" + "9" * 5000 + "}", "invalid repeat count"),
    ("(" * 101 + "a" + ")" * 101, "expression nests too deeply"),
    ("(?i:" * 4000 + "a", "expression nests too deeply"),
    ("a" * 20_001, "expression too large"),
    (r"[b-a]", "invalid character class range"),
    (r"\p{Foo}", "invalid character class range"),
    (r"(?<=a)", "invalid or unsupported Perl syntax"),
    (r"(?<!a)", "invalid or unsupported Perl syntax"),
    (r"(?=a)", "invalid or unsupported Perl syntax"),
    (r"(a)\1", "invalid escape sequence"),
    (r"(?P<>a)", "invalid named capture"),
    ("a\\", "trailing backslash at end of expression"),
    (r"((((a{100}){100}){100}){100})", "expression too large"),
]


@pytest.mark.parametrize(("expression", "matching", "other"), MATCHES)
def test_whole_names_match_as_with_re2(expression: str, matching: str, other: str) -> None:
    pattern = TopicPattern(expression)
    assert pattern.matches(matching)
    assert not pattern.matches(other)


@pytest.mark.parametrize(("expression", "message"), MISTAKES)
def test_what_re2_does_not_take_is_refused_in_its_words(expression: str, message: str) -> None:
    with pytest.raises(PatternError, match=message.replace("(", r"\(").replace(")", r"\)")):
        TopicPattern(expression)


def test_an_expression_that_backtracks_elsewhere_takes_no_longer_than_others() -> None:
    pattern = TopicPattern("((a+)+)+b")
    assert not pattern.matches("a" * 249)


SLOW = "(a{0,100}){0,60}"
"""A name is in thousands of this expression's states at once."""


def test_an_expression_that_takes_too_long_is_given_up() -> None:
    pattern = TopicPattern(SLOW)
    with pytest.raises(PatternError, match="takes too long"):
        [pattern.matches(f"{'a' * number}x") for number in range(249)]


def test_names_alike_cost_no_more_work_than_one() -> None:
    pattern = TopicPattern("a*")
    assert all(pattern.matches("a" * 249) for _ in range(1_500))


def test_a_full_cache_is_cleared() -> None:
    """Matching a cached name again costs no work. The cache cannot hold the longer name's states."""
    pattern, longer = TopicPattern(SLOW), TopicPattern(SLOW)
    assert all(pattern.matches("a" * 60) for _ in range(10))
    assert longer.matches("a" * 86)
    with pytest.raises(PatternError, match="takes too long"):
        longer.matches("a" * 86)


def test_what_takes_too_long_matches_nothing_and_is_said(caplog: pytest.LogCaptureFixture) -> None:
    harness = ShardHarness(MemoryTopics(**{"a" * 200: 1, "a" * 201: 1}))
    one = Consumer(harness, "m1", topic_regex=SLOW)
    one.beat()
    harness.wait(0)
    one.beat()
    assert one.partitions == set()
    assert "matches nothing: expression takes too long" in caplog.text


def test_the_assignment_follows_when_the_expression_is_resolved() -> None:
    harness = ShardHarness(MemoryTopics(logs_a=2, logs_b=1, other=4))
    one = Consumer(harness, "m1", topic_regex="logs_.*")
    one.beat()
    assert one.partitions == set()
    harness.wait(0)
    assert harness.consumer.regexes["logs_.*"].topics == {"logs_a", "logs_b"}
    settle(one)
    assert one.partitions == {("logs_a", 0), ("logs_a", 1), ("logs_b", 0)}
    assert harness.reloaded().consumer.regexes == harness.consumer.regexes


def test_topics_that_the_member_may_not_see_are_not_matched() -> None:
    harness = ShardHarness(MemoryTopics(logs_a=1, logs_b=1))
    one = Consumer(harness, "m1", topic_regex="logs_.*", visible_topics=lambda names: set(names) - {"logs_b"})
    one.beat()
    harness.wait(0)
    assert harness.consumer.regexes["logs_.*"].topics == {"logs_a"}
    settle(one)
    assert one.partitions == {("logs_a", 0)}


def test_what_an_expression_costs_tells_nothing_of_topics_that_are_not_seen(caplog: pytest.LogCaptureFixture) -> None:
    """Hidden topics are not matched, so that a correct guess of a name and a wrong one take the same time."""
    for guess in ("secret-", "secrez-"):
        harness = ShardHarness(MemoryTopics(mine=1, **{f"secret-{'a' * 200}": 1, f"secret-{'a' * 201}": 1}))
        one = Consumer(harness, "m1", topic_regex=f"mine|{guess}{SLOW}", visible_topics={"mine"}.intersection)
        one.beat()
        harness.wait(0)
        settle(one)
        assert one.partitions == {("mine", 0)}
    assert not caplog.text


def test_an_expression_that_others_have_is_resolved_already() -> None:
    harness = ShardHarness(MemoryTopics(a=2))
    one, two = Consumer(harness, "m1", topic_regex="a"), Consumer(harness, "m2", topic_regex="a")
    one.beat()
    harness.wait(0)
    settle(one)
    two.beat()
    assert harness.consumer.group_epoch == 3
    settle(one, two)
    assert len(two.partitions) == 1


def matched_member() -> tuple[ShardHarness, Consumer]:
    """Return a stable group of one member, whose expression matches the topic ``a1``."""
    harness = ShardHarness(MemoryTopics(a1=1))
    one = Consumer(harness, "m1", topic_regex="a.*")
    one.beat()
    harness.wait(0)
    settle(one)
    return harness, one


def test_new_topics_are_matched_not_sooner_than_ten_seconds_after_the_last_time() -> None:
    harness, one = matched_member()
    harness.topics.make("a2", 1)
    harness.wait(5_000)
    settle(one)
    assert one.partitions == {("a1", 0)}
    harness.wait(5_001)
    one.beat()
    harness.wait(0)
    settle(one)
    assert one.partitions == {("a1", 0), ("a2", 0)}


def test_topics_that_are_known_already_are_not_matched_again() -> None:
    harness, one = matched_member()
    resolved = harness.consumer.regexes["a.*"]
    assert resolved.version == harness.topics.last_creation_version
    harness.wait(10_001)
    one.beat()
    harness.wait(0)
    assert harness.consumer.regexes["a.*"] == resolved


def test_the_ten_seconds_count_from_the_heartbeat_that_had_them_matched() -> None:
    """The event loop was busy in between. This does not delay the next match."""
    harness = ShardHarness(MemoryTopics(a1=1))
    one = Consumer(harness, "m1", topic_regex="a.*")
    harness.timers.set(("busy",), 0, lambda: harness.clock.sleep_ms(4))
    one.beat()
    harness.wait(0)
    settle(one)
    harness.topics.make("a2", 1)
    harness.wait(10_001 - 4)
    one.beat()
    harness.wait(0)
    settle(one)
    assert one.partitions == {("a1", 0), ("a2", 0)}


def test_names_and_an_expression_add_up() -> None:
    harness = ShardHarness(MemoryTopics(a=1, b=1, c=1))
    one = Consumer(harness, "m1", topic_names=frozenset({"c"}), topic_regex="a|b")
    one.beat()
    assert one.partitions == {("c", 0)}
    harness.wait(0)
    settle(one)
    assert one.partitions == {("a", 0), ("b", 0), ("c", 0)}


def test_an_expression_goes_with_its_last_member() -> None:
    harness = ShardHarness(MemoryTopics(a=1))
    one, two = Consumer(harness, "m1", topic_regex="a"), Consumer(harness, "m2", topic_names=frozenset({"a"}))
    one.beat()
    harness.wait(0)
    settle(one, two)
    harness.beat("m1", one.epoch, topic_regex="", topic_names=frozenset({"a"}))
    assert harness.consumer.regexes == {}
    assert harness.consumer.member_regexes == frozenset()
    assert harness.reloaded().consumer.regexes == {}


def test_a_mistake_is_told_and_changes_nothing() -> None:
    harness = ShardHarness(MemoryTopics(a=1))
    answer = harness.beat("m1", 0, topic_regex="[").one
    assert answer["error_code"] is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer["error_message"] == "SubscribedTopicRegex `[` is not a valid regular expression: missing closing ]."
    assert not harness.shard.groups
