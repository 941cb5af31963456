"""Shortening of a failing list: operations are left out as long as the same kind of difference remains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from differential.operations import Append, Operation, Replicate, Scenario

_SEGMENT_BYTES = "internal.segment.bytes"

Fails = Callable[[Scenario], bool]


def shrink(scenario: Scenario, fails: Fails) -> Scenario:
    """Shorten greedily: runs of operations, halved down to single ones, then single batches, then settings."""
    length = len(scenario.operations) // 2
    while length:
        at = len(scenario.operations) - length
        while at >= 0:
            shorter = _without(scenario, at, length)
            if fails(shorter):
                scenario = shorter
            at -= length if at >= length or not at else at
        length //= 2
    for at, operation in enumerate(scenario.operations):
        for simpler in _simpler(operation):
            operations = (*scenario.operations[:at], simpler, *scenario.operations[at + 1 :])
            if fails(candidate := replace(scenario, operations=operations)):
                scenario = candidate
                break
    for setting in scenario.settings:
        if setting[0] == _SEGMENT_BYTES:  # a preallocated segment would have a gibibyte
            continue
        kept = tuple(one for one in scenario.settings if one != setting)
        if fails(candidate := replace(scenario, settings=kept)):
            scenario = candidate
    return scenario


def _without(scenario: Scenario, at: int, length: int) -> Scenario:
    return replace(scenario, operations=scenario.operations[:at] + scenario.operations[at + length :])


def _simpler(operation: Operation) -> list[Operation]:
    """Return the operation with each single batch of its set."""
    if isinstance(operation, Append | Replicate) and len(operation.batches) > 1:
        return [replace(operation, batches=(batch,)) for batch in operation.batches]
    return []
