"""The query string of a page: the URL is the query, and every parameter is checked where it is used.

A table of a section has the parameters ``SECTION.sort`` and ``SECTION.page``; ``SECTION.size`` is the number of rows.
Thread rule: one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from tidelog.model import ConfigError
from tidelog.web.page import Paging

T = TypeVar("T")
_MAX_FIELDS = 50
_MAX_TEXT = 1024
_MAX_ROWS = 1000
_LONG = 2**63 - 1


class Query:
    def __init__(self, parameters: Mapping[str, str] | None = None) -> None:
        self._parameters = dict(parameters or {})
        self._used: set[str] = set()

    @classmethod
    def parse(cls, text: str) -> Query:
        """Parse a query string. Of a repeated parameter the last one counts. Raise ConfigError for too many."""
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="replace")
        except ValueError:
            raise ConfigError(f"the query string has more than {_MAX_FIELDS} parameters") from None
        return cls(dict(pairs))

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter's text, or the default if it is missing or empty. Raise ConfigError if it is too long."""
        self._used.add(name)
        value = self._parameters.get(name, "") or default
        if len(value) > _MAX_TEXT:
            raise ConfigError(f"the parameter {name} has more than {_MAX_TEXT} characters")
        return value

    def integer(self, name: str, default: int, *, minimum: int = 0, maximum: int = _LONG) -> int:
        """Return a parameter's number. Raise ConfigError unless it is a whole number within the bounds."""
        text = self.text(name)
        if not text:
            return default
        digits = text.removeprefix("-")
        number = int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
        if number is None or not minimum <= number <= maximum:
            raise ConfigError(f"the parameter {name} must be a whole number from {minimum} to {maximum}")
        return number

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """Return one of the choices. Raise ConfigError for any other text."""
        text = self.text(name, default)
        known = list(choices)
        if text not in known:
            raise ConfigError(f"the parameter {name} must be one of: {', '.join(known)}")
        return text

    def flag(self, name: str) -> bool:
        return self.choice(name, ("0", "1"), "0") == "1"

    def unused(self) -> list[str]:
        """Return the names of parameters that no call asked for."""
        return sorted(self._parameters.keys() - self._used)

    def with_changes(self, changes: Mapping[str, str | None]) -> str:
        """Return a query string with changed parameters, with ``?`` before it; None removes one."""
        changed = {name: value for name, value in (self._parameters | dict(changes)).items() if value is not None}
        return "?" + urlencode(changed, errors="replace") if changed else "?"

    def items(self) -> list[tuple[str, str]]:
        return sorted(self._parameters.items())

    def paged(
        self,
        section: str,
        items: Sequence[T],
        *,
        keys: Mapping[str, Callable[[T], Any]] | None = None,
        sort: str = "",
        size: int = 100,
    ) -> tuple[list[T], Paging]:
        """Sort and slice the items of a section's table by the query.

        ``keys`` has a function for each column that can sort; items without a value (None) come last. ``sort`` is the
        default sequence, and empty keeps that of ``items``. A page beyond the last one is the last one.
        """
        known = dict(keys or {})
        order = self.text(f"{section}.sort", sort)
        column = order.removeprefix("-")
        if order and column not in known:
            raise ConfigError(f"the parameter {section}.sort must be one of: {', '.join(known) or 'none'}, or -COLUMN")
        size = self.integer(f"{section}.size", size, minimum=1, maximum=_MAX_ROWS)
        number = self.integer(f"{section}.page", 1, minimum=1)
        ordered: Sequence[int] = range(len(items))
        if order:
            values = list(map(known[column], items))  # no pair for each item, which would begin garbage collections
            valued = [at for at in ordered if values[at] is not None]
            valued.sort(key=values.__getitem__, reverse=order.startswith("-"))
            ordered = valued + [at for at in ordered if values[at] is None]
        pages = max(1, -(-len(ordered) // size))
        number = min(number, pages)
        paging = Paging(number=number, size=size, total=len(ordered), sort=order, sortable=frozenset(known))
        return [items[at] for at in ordered[(number - 1) * size : number * size]], paging

    def sliced(self, section: str, total: int, *, size: int = 100, at: int = 0) -> tuple[range, Paging]:
        """Return the numbers of the rows of a table that a page shows, for a table of very many rows.

        The page with the row ``at`` is shown unless the query names one.
        """
        size = self.integer(f"{section}.size", size, minimum=1, maximum=_MAX_ROWS)
        pages = max(1, -(-total // size))
        number = min(self.integer(f"{section}.page", at // size + 1, minimum=1), pages)
        shown = range((number - 1) * size, min(total, number * size))
        return shown, Paging(number=number, size=size, total=total)
