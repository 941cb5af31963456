r"""RE2's syntax of regular expressions as a tree, for topic names and transactional ids. Pure.

A character class is a set of ASCII characters, perhaps with ``OTHER``, which stands for all characters beyond ASCII.
``.`` is the set of all characters, ``\d`` has ten characters, ``é`` is the empty set.

======================================================================  ============================================
syntax                                                                  node
======================================================================  ============================================
``a``, ``.``, ``[a-z]``, ``[^-.]``, ``[[:alpha:]]``, ``\d \D \w \W``,   a set of characters
``\s \S``, ``\pL \PN \p{Lu}`` (ASCII's), ``\x41 \x{41} \101 \Q…\E``
``^ $ \A \z \b \B``                                                     a condition on the position
``xy``, ``x|y``, ``(x)``, ``(?:x)``, ``(?P<n>x)``, ``(?i)``, ``(?i:x)``  sequence, choice, groups, flags
``x* x+ x? x{n} x{n,} x{n,m}``, also lazy and at most 1000 times        repetition
======================================================================  ============================================

Syntax that RE2 lacks — back references, look-around, possessive repetition — is an error, with RE2/J's error text.
Source: https://github.com/google/re2/wiki/Syntax; Kafka matches with RE2/J.
"""

from __future__ import annotations

import enum
import string
from dataclasses import dataclass
from typing import Final
from unicodedata import category

OTHER: Final = "\ufffd"
"""A stand-in for each character of a name beyond ASCII."""
_ASCII: Final = frozenset(map(chr, range(128)))
ALPHABET: Final = _ASCII | {OTHER}
_LETTERS: Final = frozenset(string.ascii_letters)
_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_GRAPH: Final = frozenset(string.ascii_letters + string.digits + string.punctuation)
_MOST_REPEATS: Final = 1000
_MOST_CHARACTERS: Final = 20_000
_DEEPEST: Final = 100
"""The limit for nested groups. RE2's limit is 1000."""

_CLASSES: Final = {
    "d": frozenset(string.digits),
    "w": _WORD,
    "s": frozenset("\t\n\f\r "),
}
_POSIX: Final = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": _LETTERS,
    "ascii": _ASCII,
    "blank": frozenset("\t "),
    "cntrl": _ASCII - _GRAPH - {" "},
    "digit": frozenset(string.digits),
    "graph": _GRAPH,
    "lower": frozenset(string.ascii_lowercase),
    "print": _GRAPH | {" "},
    "punct": frozenset(string.punctuation),
    "space": frozenset("\t\n\v\f\r "),
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
_CATEGORIES: Final = (
    "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
)
_OTHER_SCRIPTS: Final = (
    "Arabic Armenian Bengali Cyrillic Devanagari Georgian Greek Han Hangul Hebrew Hiragana Katakana Tamil Thai"
)
_UNICODE: Final = {
    **{name: frozenset(one for one in _ASCII if category(one).startswith(name)) for name in _CATEGORIES.split()},
    **dict.fromkeys(_OTHER_SCRIPTS.split(), frozenset[str]()),
    "Latin": _LETTERS,
    "Common": _ASCII - _LETTERS,
    "Any": ALPHABET,
}
"""The ASCII characters of each category and script."""
_ESCAPED: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Condition(enum.Enum):
    """A condition on the position in the text."""

    START = enum.auto()
    END = enum.auto()
    WORD_BOUNDARY = enum.auto()
    NO_WORD_BOUNDARY = enum.auto()


@dataclass(frozen=True, slots=True)
class Characters:
    """A node that matches one character out of ``wanted``."""

    wanted: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``part`` repeats ``least`` to ``most`` times. ``most`` is None without a limit."""

    part: Node
    least: int
    most: int | None


Node = Characters | Condition | Sequence | Choice | Repeat


class PatternError(ValueError):
    """An invalid regular expression, with RE2/J's error text."""


def parse(text: str) -> Node:
    """Parse an expression. Raise PatternError if RE2 does not accept it, or if it is too large."""
    if len(text) > _MOST_CHARACTERS:
        raise PatternError("expression too large")
    parser = _Parser(text)
    node = parser.choice()
    if not parser.is_at_end:
        raise PatternError("unexpected )")
    return node


class _Parser:
    """A recursive descent parser. ``_position`` is the index of the next character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0
        self._ignores_case = False

    @property
    def is_at_end(self) -> bool:
        return self._position == len(self._text)

    def choice(self) -> Node:
        """Parse alternatives up to the end of the text or of the current group."""
        before = self._ignores_case
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        self._ignores_case = before  # flags apply until the end of their group
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while not self.is_at_end and self._text[self._position] not in "|)":
            node = self._atom()
            if node is not None:
                parts.append(self._repeated(node))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _atom(self) -> Node | None:
        """Parse one atom. Return None for flags, which match nothing by themselves."""
        if self._take(r"\Q"):
            return self._quoted()
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return Characters(self._cased(self._class()))
        if character == "\\":
            return self._escape()
        if character in "*+?":
            raise PatternError("missing argument to repetition operator")
        if character == ".":
            return Characters(ALPHABET)
        if character in "^$":
            return Condition.START if character == "^" else Condition.END
        return self._literal(character)

    def _repeated(self, node: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return node
        self._take("?")  # lazy and greedy repetitions match the same complete texts
        if self._bounds() is not None:
            raise PatternError("invalid nested repetition operator")
        return Repeat(node, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        return self._braces() if self._peek() == "{" else None

    def _braces(self) -> tuple[int, int | None] | None:
        """Parse a repetition in braces. Return None if the brace has another form: then it is a literal character."""
        end = self._text.find("}", self._position)
        least, comma, most = self._text[self._position + 1 : end].partition(",")
        if end < 0 or not _is_number(least) or not (most == "" or _is_number(most)):
            return None
        self._position = end + 1
        if max(len(least), len(most)) > len(str(_MOST_REPEATS)):
            raise PatternError("invalid repeat count")
        low = int(least)
        high = low if not comma else int(most) if most else None
        if low > _MOST_REPEATS or (high is not None and not low <= high <= _MOST_REPEATS):
            raise PatternError("invalid repeat count")
        return low, high

    def _group(self) -> Node | None:
        if self._take("?"):
            if self._take("P<") or (self._peek() == "<" and self._ahead(1) not in ("=", "!") and self._take("<")):
                name = self._until(">", "invalid named capture")
                if not name or not set(name) <= _WORD:
                    raise PatternError("invalid named capture")
            elif not self._take(":"):
                return self._flags()
        return self._within()

    def _within(self) -> Node:
        """Parse the content of a group and its closing parenthesis."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise PatternError("expression nests too deeply")
        node = self.choice()
        if not self._take(")"):
            raise PatternError("missing closing )")
        self._depth -= 1
        return node

    def _flags(self) -> Node | None:
        """Parse ``(?flags)`` or ``(?flags:x)``. Only ``i`` has an effect on a topic name."""
        before, is_set = self._ignores_case, True
        while True:
            flag = self._next("invalid or unsupported Perl syntax")
            if flag == "i":
                self._ignores_case = is_set
            elif flag == "-" and is_set:
                is_set = False
            elif flag == ")":
                return None
            elif flag == ":":
                break
            elif flag not in "msU":
                raise PatternError("invalid or unsupported Perl syntax")
        node = self._within()
        self._ignores_case = before
        return node

    def _escape(self) -> Node:
        conditions = {
            "A": Condition.START,
            "z": Condition.END,
            "b": Condition.WORD_BOUNDARY,
            "B": Condition.NO_WORD_BOUNDARY,
        }
        if self._peek() in conditions:
            return conditions[self._next()]
        wanted = self._escaped_set()
        return self._literal(self._escaped_character()) if wanted is None else Characters(self._cased(wanted))

    def _escaped_set(self) -> frozenset[str] | None:
        letter = self._peek()
        if letter in ("p", "P"):
            self._next()
            name = self._until("}", "invalid character class range") if self._take("{") else self._next()
            is_negated = (letter == "P") != name.startswith("^")
            name = name.removeprefix("^")
            found = _UNICODE.get(name)
            if found is None:
                raise PatternError("invalid character class range")
            return ALPHABET - found if is_negated else found
        if letter.lower() in _CLASSES and letter:
            self._next()
            found = _CLASSES[letter.lower()]
            return found if letter.islower() else ALPHABET - found
        return None

    def _escaped_character(self) -> str:
        letter = self._next("trailing backslash at end of expression")
        if letter == "x":
            is_braced = self._take("{")
            digits = self._until("}", "invalid escape sequence") if is_braced else self._next() + self._next()
            return _character(digits, 16)
        if letter == "0" or (letter in "1234567" and self._peek() in tuple("01234567")):
            digits = letter
            while len(digits) < 3 and self._peek() in tuple("01234567"):
                digits += self._next()
            return _character(digits, 8)
        if letter in _ESCAPED:
            return _ESCAPED[letter]
        if letter.isascii() and letter.isalnum():
            raise PatternError("invalid escape sequence")
        return letter

    def _class(self) -> frozenset[str]:
        is_negated = self._take("^")
        found: set[str] = set()
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            if self._take("[:"):
                found |= self._posix()
                continue
            wanted = self._escaped_set_in_class()
            if wanted is not None:
                found |= wanted
                continue
            low = high = self._class_character()
            if self._peek() == "-" and self._ahead(1) not in ("]", ""):
                self._next()
                high = self._class_character()
            if high < low:
                raise PatternError("invalid character class range")
            found |= {one for one in ALPHABET if low <= one <= high}
        self._next()
        return ALPHABET - self._cased(frozenset(found)) if is_negated else frozenset(found)

    def _escaped_set_in_class(self) -> frozenset[str] | None:
        if self._peek() != "\\":
            return None
        self._position += 1
        wanted = self._escaped_set()
        if wanted is None:
            self._position -= 1
        return wanted

    def _posix(self) -> frozenset[str]:
        name = self._until(":]", "missing closing ]")
        found = _POSIX.get(name.removeprefix("^"))
        if found is None:
            raise PatternError("invalid character class range")
        return ALPHABET - found if name.startswith("^") else found

    def _class_character(self) -> str:
        character = self._next("missing closing ]")
        return self._escaped_character() if character == "\\" else character

    def _quoted(self) -> Node:
        """Parse quoted text. The end mark ``\\E`` is optional at the end of the text."""
        end = self._text.find(r"\E", self._position)
        literal = self._text[self._position : end if end >= 0 else len(self._text)]
        self._position = end + 2 if end >= 0 else len(self._text)
        return Sequence(tuple(self._literal(character) for character in literal))

    def _literal(self, character: str) -> Node:
        return Characters(self._cased(frozenset(character)))

    def _cased(self, wanted: frozenset[str]) -> frozenset[str]:
        if self._ignores_case:
            wanted = frozenset(case for one in wanted for case in (one, one.lower(), one.upper()))
        return wanted & ALPHABET

    # --- the text ---

    def _peek(self) -> str:
        return self._ahead(0)

    def _ahead(self, count: int) -> str:
        return self._text[self._position + count : self._position + count + 1]

    def _next(self, message: str = "missing closing ]") -> str:
        if self.is_at_end:
            raise PatternError(message)
        self._position += 1
        return self._text[self._position - 1]

    def _take(self, wanted: str) -> bool:
        found = self._text.startswith(wanted, self._position)
        self._position += len(wanted) if found else 0
        return found

    def _until(self, end: str, message: str) -> str:
        position = self._text.find(end, self._position)
        if position < 0:
            raise PatternError(message)
        found = self._text[self._position : position]
        self._position = position + len(end)
        return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _character(digits: str, base: int) -> str:
    try:
        return chr(int(digits, base))
    except (ValueError, OverflowError):
        raise PatternError("invalid escape sequence") from None
