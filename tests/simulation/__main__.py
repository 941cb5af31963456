"""``make sim``: run seeds of the simulation, and print the story of the first seed that breaks an invariant.

``--seeds 1000`` runs the seeds from 0 on, and ``--seeds 17..42`` a range with both ends. A range of one seed prints its
story even if no invariant breaks. ``--fault NAME`` breaks a rule on purpose, and ``--fault list`` names the faults. A
failing seed is shrunk before its story is printed. The exit code is 1 if an invariant was broken.
"""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from simulation.cluster import run
from simulation.faults import FAULTS, applied
from simulation.plan import Plan, plan_of
from simulation.shrinking import shrink
from simulation.soak import Chunk, Finding, run_parallel


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.fault == "list":
        for name, fault in FAULTS.items():
            print(f"{name:32} {fault.rule}")
        return 0
    seeds = _seeds(arguments.seeds)
    if len(seeds) == 1:
        return _tell(seeds[0], arguments.fault, shrinks=not arguments.whole)
    findings = _run(seeds, arguments.fault)
    if not findings:
        return 0
    for finding in findings[:10]:
        print(f"seed {finding.seed}, step {finding.step}: {finding.problem}")
    if len(findings) > 10:
        print(f"… and {len(findings) - 10} more seeds")
    print()
    return _tell(findings[0].seed, arguments.fault, shrinks=not arguments.whole)


def story(plan: Plan, fault: str | None) -> str:
    """Return the story of a plan: the cluster, its history, and the broken invariant if there is one."""
    with applied(fault):
        outcome = run(plan, keeps_history=True)
    lines = [f"{plan.shape}", "", outcome.history.text()]
    if outcome.problem is not None:
        lines += ["", f"broken invariant: {outcome.problem}"]
    return "\n".join(lines)


def shrunk(seed: int, fault: str | None) -> Plan:
    """Return the plan of a seed, shrunk if it breaks an invariant."""
    plan = plan_of(seed)
    with applied(fault):
        invariant = run(plan).invariant
        return plan if invariant is None else shrink(plan, invariant)


def _tell(seed: int, fault: str | None, *, shrinks: bool) -> int:
    plan = shrunk(seed, fault) if shrinks else plan_of(seed)
    if len(plan.events) < len(plan_of(seed).events):
        print(f"seed {seed}, shrunk from {len(plan_of(seed).events)} to {len(plan.events)} events:")
    print(story(plan, fault))
    with applied(fault):
        return 1 if run(plan).problem is not None else 0


def _run(seeds: range, fault: str | None) -> list[Finding]:
    steps = acknowledged = done = 0
    begun = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[found]} failed"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("seeds", total=len(seeds), found=0)
        found = 0

        def on_chunk(chunk: Chunk) -> None:
            nonlocal steps, acknowledged, done, found
            steps += chunk.steps
            acknowledged += chunk.acknowledged
            done += chunk.seeds
            found += len(chunk.findings)
            bar.update(task, completed=done, found=found)

        findings = run_parallel(seeds, fault, on_chunk)
    seconds = time.monotonic() - begun
    print(
        f"{done} seeds, {steps} steps, {acknowledged} acknowledged batches, {len(findings)} broken invariants,"
        f" {seconds:.0f} s, {seconds / max(1, steps) * 1e6:.0f} µs a step"
    )
    return findings


def _seeds(text: str) -> range:
    first, dots, last = text.partition("..")
    return range(int(first), int(last) + 1) if dots else range(int(first))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make sim", description="Run the simulation of replication.")
    parser.add_argument("--seeds", default="1000", help="a number of seeds, or FIRST..LAST")
    parser.add_argument("--fault", help="break a rule on purpose; 'list' names the faults")
    parser.add_argument("--whole", action="store_true", help="tell the whole story of a failing seed, not shrunk")
    return parser


if __name__ == "__main__":
    sys.exit(main())
