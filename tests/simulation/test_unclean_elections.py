"""A leader of an epoch before an unclean election promises nothing, also if it gets its log after that election."""

from __future__ import annotations

from simulation.cluster import run
from simulation.plan import plan_of

_PLACES = (3, 14, 15, 18, 34, 36, 38, 88, 89, 90, 92, 97, 105, 106, 108, 118, 120, 121, 122, 126, 127, 146, 148, 156)
_SUPERSEDED = (157, 165, 170)
"""The events in which broker 3 creates its log late, begins to lead in an old epoch, and appends."""


def test_a_superseded_leader_with_a_new_log_commits_only_for_itself() -> None:
    outcome = run(plan_of(5570).only((*_PLACES, *_SUPERSEDED)), keeps_history=True)
    lines = [line for _, line in outcome.history.lines]
    elected = lines.index("broker 1 becomes leader of t-0 in epoch 4 at offset 0, with high watermark 0")
    superseded = lines.index("broker 3 becomes leader of t-0 in epoch 3 at offset 0, with high watermark 0")
    assert elected < superseded < lines.index("broker 3 appends batch 1 to t-0 at offset 0, acks=1")
    assert outcome.problem is None
