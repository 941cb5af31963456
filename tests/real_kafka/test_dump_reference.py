"""The stored outputs of ``kafka-dump-log`` equal Kafka's: every case runs again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dump_cases import CASES, DIRECTORY, DumpCase, options_of
from golden_sets import KRAFT_SETS
from real_kafka.dump_runs import DumpRuns
from tidelog.inspect.dump import ToolRelease, dump_kafka_format

pytestmark = pytest.mark.kafka

KEEPS = bool(os.environ.get("KEEP_DUMP_OUTPUTS"))
RUNS = [
    *((case, ToolRelease.KAFKA_4_3) for case in CASES),
    *((case, ToolRelease.KAFKA_4_2) for case in CASES if KEEPS or case.is_printed_otherwise),
]
if KEEPS:
    RUNS.reverse()  # 4.2 first, because the output of 4.3 is stored only if it differs from that of 4.2


Tools = dict[ToolRelease, DumpRuns]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    with ExitStack() as jvms:
        yield {
            release: jvms.enter_context(DumpRuns(release, tmp_path_factory.mktemp("dumps"))) for release in ToolRelease
        }


@pytest.mark.parametrize(("case", "release"), RUNS, ids=lambda one: one.name if isinstance(one, DumpCase) else one)
def test_kept_output(
    case: DumpCase, release: ToolRelease, tools: Tools, golden: Callable[..., Path], tmp_path: Path
) -> None:
    """The stored output is Kafka's. ``KEEP_DUMP_OUTPUTS=1`` writes the files instead of comparing them."""
    files = case.prepare(golden, tmp_path / "run")
    done = tools[release].dump(tmp_path / "run", case.switches, files)
    errors = _without_traces(done.stderr.decode().replace(str(tools[release].directory), DIRECTORY))
    if KEEPS:
        case.keep(release, done.stdout, errors)
        return
    assert done.stdout.decode() == case.stdout(release)
    # Kafka prints its findings in the order of a hash table of absolute paths, which differs from run to run.
    assert sorted(errors) == sorted(case.stderr(release))


@pytest.mark.parametrize("set_name", KRAFT_SETS)
@pytest.mark.parametrize(
    "switches", [("--print-data-log",), ("--verify-index-only",)], ids=lambda switches: switches[0]
)
def test_files_of_a_killed_broker(
    set_name: str,
    switches: tuple[str, ...],
    tools: Tools,
    golden: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The output is equal for every file after ``kill -9``, except indexes of empty logs, on which Kafka's tool fails.

    Kafka prints the findings of several files in the order of a hash table, so standard error is compared in any order.
    """
    directory = golden(set_name, "unclean")
    monkeypatch.chdir(directory)
    files = [
        str(path)
        for path in sorted(Path().glob("*/*"))
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
        and not path.parent.name.startswith("big-")
        and not (path.suffix == ".index" and path.with_suffix(".log").stat().st_size == 0)
    ]
    done = tools[ToolRelease.KAFKA_4_3].dump(directory, switches, files)
    errors = done.stderr.decode().replace(str(tools[ToolRelease.KAFKA_4_3].directory), str(directory))
    assert done.code == 0, errors
    complaints: list[str] = []
    text = "".join(dump_kafka_format(files, options_of(switches), complain=complaints.append))
    assert text == done.stdout.decode()
    assert sorted(complaints) == sorted(errors.splitlines())


def _without_traces(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("\tat ")]
