"""The examples of docs/spark-clusters.md on a Spark Connect server. ``test_clusters`` runs them in a process."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from cli.runner import run
from conftest import GoldenFactory
from golden_sets import FLIGHTS

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "spark-clusters.md").read_text()


def test_the_examples_run(golden: GoldenFactory, capsys: pytest.CaptureFixture[str]) -> None:
    examples = PAGE.partition("\n## Spark Connect\n")[2]
    for shown, given in (
        ("sc://localhost:15002", os.environ["SPARK_REMOTE"]),
        ("s3://backups/broker-1", os.environ["TIDELOG_TEST_BACKUP"]),
        ("/mnt/disk1/kafka", str(golden(FLIGHTS))),
    ):
        examples = examples.replace(shown, given)
    scope: dict[str, Any] = {}
    blocks = re.findall(r"^```(python|bash)\n(.*?)^```", examples, flags=re.MULTILINE | re.DOTALL)
    for language, block in blocks:
        if language == "python":
            exec(compile(block, "docs/spark-clusters.md", "exec"), scope)
            continue
        for command in block.splitlines():
            assert run(*shlex.split(command)[1:]).stdout
    assert len(blocks) == 4
    assert " flights\n" in capsys.readouterr().out
