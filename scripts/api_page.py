"""docs/server.md: the list of Kafka's APIs that the broker serves, from its table of groups.

`make map` writes that part of the page again. A test fails while the two differ.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap

from tidelog.protocol.api_key import VERSIONS
from tidelog.server.handlers.api_groups import advertised_versions

PAGE = Path(__file__).resolve().parents[1] / "docs" / "server.md"
BEGIN = "<!-- APIs: written by `make map` -->"
END = "<!-- end of the APIs -->"
LINE_WIDTH = 120


def api_lines() -> list[str]:
    served = advertised_versions()
    rows = [f"| {api:d} | {api.title} | {row.oldest} – {row.latest} |" for api, row in served.items()]
    others = ", ".join(api.title for api in VERSIONS if api not in served)
    return ["| key | API | versions |", "|---:|---|---|", *rows, "", *wrap(f"Not served: {others}.", LINE_WIDTH)]


def with_apis(page: str) -> str:
    """Return ``page`` with the new list."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + "\n".join([BEGIN, *api_lines(), END]) + after


if __name__ == "__main__":
    PAGE.write_text(with_apis(PAGE.read_text()))
