"""Many seeds, in all cores: which of them break an invariant, and how fast the runs are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from simulation.cluster import run
from simulation.faults import applied
from simulation.plan import plan_of

_CHUNK = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A seed that broke an invariant."""

    seed: int
    step: int
    invariant: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The result of some seeds."""

    seeds: int
    steps: int
    acknowledged: int
    findings: tuple[Finding, ...]


def run_seeds(seeds: Sequence[int], fault: str | None = None) -> Chunk:
    """Run seeds in this process."""
    steps = acknowledged = 0
    findings = []
    with applied(fault):
        for seed in seeds:
            outcome = run(plan_of(seed))
            steps += outcome.steps
            acknowledged += outcome.acknowledged
            if outcome.problem is not None:
                assert outcome.invariant is not None
                findings.append(
                    Finding(seed=seed, step=outcome.steps, invariant=outcome.invariant, problem=outcome.problem)
                )
    return Chunk(seeds=len(seeds), steps=steps, acknowledged=acknowledged, findings=tuple(findings))


def run_parallel(
    seeds: range, fault: str | None, on_chunk: Callable[[Chunk], None], *, until_found: bool = False
) -> list[Finding]:
    """Run seeds in as many processes as there are cores. Return the findings by seed."""
    findings: list[Finding] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        waiting = [pool.submit(run_seeds, chunk, fault) for chunk in _chunks(seeds)]
        for future in as_completed(waiting):
            chunk = future.result()
            on_chunk(chunk)
            findings += chunk.findings
            if findings and until_found:
                pool.shutdown(wait=False, cancel_futures=True)
                break
    return sorted(findings, key=lambda one: one.seed)


def _chunks(seeds: range) -> Iterator[range]:
    for at in range(0, len(seeds), _CHUNK):
        yield seeds[at : at + _CHUNK]
