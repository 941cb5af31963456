"""``make sim``: run seeds of the simulation, and print the story of the first seed that breaks an invariant.

``--seeds 1000`` runs the seeds from 0 on, and ``--seeds 17..42`` a range with both ends. A range of one seed prints its
story even if no invariant breaks. ``--fault NAME`` breaks a rule on purpose, and ``--fault list`` names the faults. A
failing seed is shrunk to few events before its story is printed, and ``--events`` repeats exactly these events. The
exit code is 1 if an invariant was broken.
"""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from simulation.faults import FAULTS
from simulation.plan import plan_of
from simulation.soak import Chunk, Finding, run_parallel
from simulation.story import shrunk, story

_SHOWN = 10


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.fault == "list":
        for name, fault in FAULTS.items():
            print(f"{name:28} {fault.rule}")
        return 0
    seeds = _seeds(arguments.seeds)
    if arguments.events:
        return _print_story(seeds[0], arguments.fault, tuple(map(int, arguments.events.split(","))))
    if len(seeds) == 1:
        return _print_story(seeds[0], arguments.fault, shrinks=not arguments.whole)
    findings = _run(seeds, arguments.fault)
    if not findings:
        return 0
    for finding in findings[:_SHOWN]:
        print(f"seed {finding.seed}, step {finding.step}: {finding.problem}")
    if len(findings) > _SHOWN:
        print(f"… and {len(findings) - _SHOWN} more seeds")
    print()
    return _print_story(findings[0].seed, arguments.fault, shrinks=not arguments.whole)


def _print_story(seed: int, fault: str | None, places: tuple[int, ...] = (), *, shrinks: bool = False) -> int:
    plan = plan_of(seed).only(places) if places else plan_of(seed)
    if shrinks:
        plan = shrunk(plan, fault)
        if len(plan.events) < len(plan_of(seed).events):
            selected = f"SEEDS={seed}..{seed} EVENTS={','.join(map(str, plan.places))}"
            print(f"make sim {selected}{f' FAULT={fault}' if fault else ''}\n")
    text, is_broken = story(plan, fault)
    print(text)
    return int(is_broken)


def _run(seeds: range, fault: str | None) -> list[Finding]:
    steps = acknowledged = done = found = 0
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
    parser.add_argument("--events", help="the places of the seed's events to run, with commas; all others are left out")
    parser.add_argument("--whole", action="store_true", help="print the whole story of a failing seed, not shrunk")
    return parser


if __name__ == "__main__":
    sys.exit(main())
