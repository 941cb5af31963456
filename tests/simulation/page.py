"""The stories of docs/replication.md: ``python -m simulation.page`` updates them after a change of the
simulation.

A story is a block of the page that begins with its command. The seeds and events of the commands are chosen by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

from simulation.plan import plan_of
from simulation.story import story

PAGE = Path(__file__).resolve().parents[2] / "docs" / "replication.md"
STORY = re.compile(
    r"^```text\n(?P<command>make sim SEEDS=(?P<seed>\d+)\.\.(?P=seed) EVENTS=(?P<places>[\d,]+)"
    r"(?: FAULT=(?P<fault>[a-z-]+))?)\n\n(?P<story>.*?)\n```$",
    re.MULTILINE | re.DOTALL,
)


def told(found: re.Match[str], *, with_fault: bool = True) -> tuple[str, bool]:
    """Return the story of a block, and True if an invariant was broken."""
    plan = plan_of(int(found["seed"])).only([int(place) for place in found["places"].split(",")])
    return story(plan, found["fault"] if with_fault else None)


def write() -> None:
    """Write the stories into the page."""
    page = STORY.sub(lambda found: f"```text\n{found['command']}\n\n{told(found)[0]}\n```", PAGE.read_text())
    PAGE.write_text(page)


if __name__ == "__main__":
    write()
