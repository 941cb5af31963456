"""The parameters of the records page.

=====================  ================================================================================================
``start``              an offset, ``-10`` for ten offsets before the end, a time, ``earliest``, ``latest``; ``<123``
                       for the last records before offset 123
``limit``              the number of records
``isolation``,         as in ``tidelog records``
``until``
``key``, ``key_match`` only records with this key, or with keys that begin with it; ``0x6b31`` gives bytes in hex
``control``            1 shows control records
``follow``             1 shows new records as they arrive
``key_format``,        see ``value_options``
``value_format``,
``value_bytes``
=====================  ================================================================================================
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.inspect.bounds import Bound, ReadLimits, parse_bound
from tidelog.inspect.record_scan import KeyFilter
from tidelog.inspect.shown_values import ValueShape
from tidelog.model import ConfigError, Isolation
from tidelog.storage.log.view.log_view import Until
from tidelog.web.page import Choice, FormField
from tidelog.web.query import Query
from tidelog.web.reports.value_options import format_fields

USUAL_LIMIT: Final = 50
MOST_LIMIT: Final = 500
_BEFORE: Final = "<"
_ISOLATIONS: Final = (Isolation.READ_UNCOMMITTED.value, Isolation.READ_COMMITTED.value)


class KeyMatch(enum.StrEnum):
    EXACT = "exact"
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordQuery:
    """The parsed parameters. With ``start=<OFFSET``, ``before`` is the offset, and ``start`` has no meaning."""

    start_text: str
    start: Bound
    before: int | None
    limit: int
    limits: ReadLimits
    key_text: str
    key: KeyFilter | None
    with_control: bool
    follows: bool

    @property
    def is_committed(self) -> bool:
        return self.limits.isolation is Isolation.READ_COMMITTED


def parse_record_query(query: Query) -> RecordQuery:
    """Read the parameters. Raise ConfigError for values that they do not have."""
    limit = query.integer("limit", USUAL_LIMIT, minimum=1, maximum=MOST_LIMIT)
    follows = query.flag("follow")
    text = query.text("start", f"-{limit}" if follows else "earliest")
    before = _before(text)
    until = query.choice("until", ("", *(until.value for until in Until)), "")
    key = query.text("key")
    match = KeyMatch(query.choice("key_match", [match.value for match in KeyMatch], KeyMatch.EXACT))
    return RecordQuery(
        start_text=text,
        start=parse_bound(text if before is None else "earliest"),
        before=before,
        limit=limit,
        limits=ReadLimits(
            isolation=Isolation(query.choice("isolation", _ISOLATIONS, _ISOLATIONS[0])),
            until=Until(until) if until else None,
        ),
        key_text=key,
        key=_key_filter(key, match) if key else None,
        with_control=query.flag("control"),
        follows=follows,
    )


def form_fields(query: RecordQuery, shape: ValueShape) -> Sequence[FormField]:
    """Return the fields of the page's form."""
    untils = [Choice(value="", title="usual end"), *(Choice(value=one, title=one.replace("_", " ")) for one in Until)]
    is_prefix = query.key is not None and query.key.is_prefix
    return (
        FormField(name="start", title="From", value=query.start_text, hint="offset, -10, time, earliest"),
        FormField(name="limit", title="Records", value=str(query.limit)),
        FormField(name="key", title="Key", value=query.key_text, hint="text, or 0x and hex"),
        FormField(
            name="key_match",
            title="Key is",
            value=KeyMatch.PREFIX if is_prefix else KeyMatch.EXACT,
            choices=[Choice(value=KeyMatch.EXACT, title="equal"), Choice(value=KeyMatch.PREFIX, title="a prefix")],
        ),
        FormField(
            name="isolation",
            title="Isolation",
            value=query.limits.isolation.value,
            choices=[Choice(value=one, title=one.replace("_", " ")) for one in _ISOLATIONS],
        ),
        FormField(name="until", title="Until", value=query.limits.until or "", choices=untils),
        FormField(name="control", title="Control records", value=str(int(query.with_control)), choices=_NO_YES),
        *format_fields(shape),
    )


_NO_YES: Final = (Choice(value="0", title="hidden"), Choice(value="1", title="shown"))


def _before(text: str) -> int | None:
    if not text.startswith(_BEFORE):
        return None
    digits = text[len(_BEFORE) :]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
        raise ConfigError(f"'{text}' is not < and an offset")
    return int(digits)


def before_text(offset: int) -> str:
    """Return the text of ``start`` for the records before an offset."""
    return f"{_BEFORE}{offset}"


def _key_filter(text: str, match: KeyMatch) -> KeyFilter:
    patterns = [text.encode("utf-8", "surrogateescape")]
    if text.startswith("0x"):
        try:
            patterns.append(bytes.fromhex(text[2:]))
        except ValueError:
            pass
    return KeyFilter(tuple(patterns), match is KeyMatch.PREFIX)
