"""A regular expression that matches complete names, in time linear in the length of the name.

The expression becomes a state machine whose states are positions in it. All positions that a name can have reached are
followed at once (Thompson's construction). Each set of positions is cached with its successor for each character. So no
client can keep the broker busy with an expression that backtracks. Four things have limits: the size of the expression,
the size of the machine (RE2/J limits the repeat count), the work, and the cache, which is cleared when full.

Thread rule: one thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tidelog.server.groups.pattern.syntax import (
    OTHER,
    Characters,
    Choice,
    Condition,
    Node,
    PatternError,
    Repeat,
    Sequence,
    parse,
)

_MOST_STATES: Final = 20_000
_MOST_KEPT: Final = 200_000
"""The maximum number of states in all cached sets."""
_MOST_WORK: Final = 500_000
"""The maximum number of state visits for all names, about a second. A normal expression needs some thousands."""
_WORD_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_END: Final = ""
"""The pseudo-character after the last character, also used before the first."""


class _State(NamedTuple):
    """A state leads to ``next`` on a character of ``wanted``. For a condition or None it consumes no character."""

    wanted: frozenset[str] | Condition | None
    next: tuple[int, ...]


class TopicPattern:
    """``text`` is the original expression."""

    def __init__(self, text: str) -> None:
        """The constructor raises PatternError if RE2 does not accept the expression, or if it is too large."""
        self.text = text
        self._states = [_State(None, ())]  # the final state: the complete name was matched
        self._start = self._compiled(parse(text), 0)
        self._kept: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}
        self._kept_states = 0
        self._work = 0

    def matches(self, name: str) -> bool:
        """Return True if all of ``name`` matches. Non-ASCII characters of an expression match nothing.

        Raise PatternError if the expression has cost too much work over all names.
        """
        if not name.isascii():
            name = "".join(character if character.isascii() else OTHER for character in name)
        reached = frozenset({self._start})
        before = _END
        for character in (*name, _END):
            key = (reached, before, character)
            following = self._kept.get(key)
            if following is None:
                following = self._step(*key)
                self._keep(key, following)
            reached, before = following, character
        return bool(reached)

    def _keep(self, key: tuple[frozenset[int], str, str], following: frozenset[int]) -> None:
        if self._kept_states > _MOST_KEPT:
            self._kept.clear()
            self._kept_states = 0
        self._kept[key] = following
        self._kept_states += len(following) + 1

    # --- the machine ---

    def _step(self, reached: frozenset[int], before: str, character: str) -> frozenset[int]:
        """Follow the states ``reached`` over ``character``. At the end, return the final state if it was reached."""
        closed: set[int] = set()
        waiting = list(reached)
        following: set[int] = set()
        while waiting:
            number = waiting.pop()
            if number in closed:
                continue
            closed.add(number)
            wanted, targets = self._states[number]
            if isinstance(wanted, frozenset):
                if character in wanted:
                    following.update(targets)
            elif wanted is None or _holds(wanted, before, character):
                waiting.extend(targets)
        self._work += len(closed)
        if self._work > _MOST_WORK:
            raise PatternError("expression takes too long")
        if character == _END:
            return frozenset({0}) if 0 in closed else frozenset()
        return frozenset(following)

    def _add(self, wanted: frozenset[str] | Condition | None, targets: Iterable[int]) -> int:
        if len(self._states) >= _MOST_STATES:
            raise PatternError("expression too large")
        self._states.append(_State(wanted, tuple(targets)))
        return len(self._states) - 1

    def _compiled(self, node: Node, after: int) -> int:
        """Return the state from which ``node`` is matched, followed by the state ``after``."""
        if isinstance(node, Characters):
            return self._add(node.wanted, (after,))
        if isinstance(node, Condition):
            return self._add(node, (after,))
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                after = self._compiled(part, after)
            return after
        if isinstance(node, Choice):
            return self._add(None, [self._compiled(part, after) for part in node.parts])
        return self._repeated(node, after)

    def _repeated(self, node: Repeat, after: int) -> int:
        if node.most is None:
            loop = self._add(None, ())
            self._states[loop] = _State(None, (self._compiled(node.part, loop), after))
            after = loop
        else:
            end = after
            for _ in range(node.most - node.least):
                after = self._add(None, (self._compiled(node.part, after), end))
        for _ in range(node.least):
            after = self._compiled(node.part, after)
        return after


def _holds(condition: Condition, before: str, character: str) -> bool:
    if condition is Condition.START:
        return before == _END
    if condition is Condition.END:
        return character == _END
    is_boundary = (before in _WORD_CHARACTERS) != (character in _WORD_CHARACTERS)
    return is_boundary == (condition is Condition.WORD_BOUNDARY)
