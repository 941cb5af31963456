"""The kept outputs of ``kafka-dump-log`` are what Kafka prints: every case is run again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dump_cases import CASES, DIRECTORY, OUTPUTS, DumpCase
from kafka.java import java_command

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kept_output(case: DumpCase, golden: Callable[..., Path], tmp_path: Path) -> None:
    """``KEEP_DUMP_OUTPUTS=1`` writes the files instead of comparing."""
    directory = tmp_path / "run"
    files = case.prepare(golden, directory)
    done = subprocess.run(
        java_command("kafka.tools.DumpLogSegments", *case.switches, "--files", ",".join(files)),
        cwd=directory,
        capture_output=True,
        check=False,
        timeout=60,
    )
    errors = _without_traces(done.stderr.decode().replace(str(directory), DIRECTORY))
    if os.environ.get("KEEP_DUMP_OUTPUTS"):
        OUTPUTS.mkdir(exist_ok=True)
        (OUTPUTS / f"{case.name}.out").write_bytes(done.stdout)
        if errors:
            (OUTPUTS / f"{case.name}.err").write_text("".join(f"{line}\n" for line in errors))
        return
    assert done.stdout.decode() == case.stdout
    assert errors == case.stderr


def _without_traces(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("\tat ")]
