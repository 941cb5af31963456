"""The page for users who test with tidelog: its example runs, and its names exist."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import tidelog.testing
from project.tree import ROOT
from tidelog.testing import pytest_plugin
from tidelog.testing.cluster.cluster_nodes import ClusterBroker

PAGE = (ROOT / "docs" / "testing.md").read_text()


pytest_plugins = ("pytester",)

BROKER, CLUSTER, HELD, FIXTURES, CRASH = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def printed(example: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    exec(compile(example, "testing.md", "exec"), {})
    return capsys.readouterr().out.splitlines()


def test_the_example_of_a_crash_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = printed(CRASH, capsys)
    states = re.match(r"(\d+) states after a crash", line)
    assert states
    assert int(states[1]) > 20


def test_the_example_of_a_broker_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(BROKER, capsys) == [str([b"first", b"second", b"third"])]


def test_the_example_of_a_cluster_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(CLUSTER, capsys) == ["True", str([b"after a kill", b"disconnected"])]


def test_the_example_of_manual_time_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(HELD, capsys) == ["1", "0"]


def test_the_example_of_the_fixtures_runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(FIXTURES)
    pytester.runpytest_inprocess("-p", "tidelog.testing.pytest_plugin").assert_outcomes(passed=1)


def test_the_fixtures_exist() -> None:
    for name in re.findall(r"^\| `(\w+)` \| (?:session|test) \|", PAGE, flags=re.MULTILINE):
        assert hasattr(pytest_plugin, name), name


def test_the_names_exist() -> None:
    for name in re.findall(r"\bdisk\.(\w+)", PAGE):
        assert hasattr(tidelog.testing.SimulatedDisk, name) or name == "simulated_disk", name
    for name in re.findall(r"\bbroker\.(\w+)", PAGE):
        assert hasattr(tidelog.testing.Broker, name), name
    for name in re.findall(r"\bcluster\.(\w+)\(", PAGE):
        assert hasattr(tidelog.testing.Cluster, name), name
    for name in re.findall(r"\bcluster\.brokers\[1\]\.(\w+)\(", PAGE):
        assert hasattr(ClusterBroker, name), name


def test_tidelog_does_not_import_it() -> None:
    script = "import sys, tidelog; print([one for one in ('tidelog.testing', 'hypothesis') if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    script = "import sys, tidelog.testing; print('hypothesis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
