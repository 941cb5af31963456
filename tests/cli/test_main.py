"""The end of a run: exit codes, errors for people, closed pipes and Ctrl-C. ``--help`` must load few modules."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.runner import run
from conftest import GoldenFactory
from golden_sets import FLIGHTS, SCENARIOS
from tidelog.cli.main import COMMANDS

WITHOUT_DIRECTORIES = frozenset(
    {"config", "dump", "export", "format", "mirror", "random-uuid", "serve", "snapshot", "spark"}
)
"""Commands that take no log directory, or have a test of their own for a wrong one."""

COMMAND = [sys.executable, "-m", "tidelog"]
SCRIPT = [str(Path(sys.executable).with_name("tidelog"))]
"""The installed command. ``python -m tidelog`` must behave the same."""
FIND_HEAVY = (
    "import sys; from tidelog.cli.main import cli\n"
    "try: cli.main(args=[{arguments}])\n"
    "except SystemExit: pass\n"
    "print(sorted({{'numpy', 'pyarrow', 'rich', 'tidelog.storage', 'tidelog.kernel'}} & set(sys.modules)))"
)


def tidelog(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    words = [str(argument) for argument in arguments]
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=400, **options)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("arguments", ["'--help'", "'--version'"])
def test_help_reads_no_engine(arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIND_HEAVY.format(arguments=arguments)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", ["count", "info", "records", "recover", "verify", "offsets", "dump", "metadata"])
def test_only_export_loads_arrow(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIND_HEAVY.format(arguments=f"'{command}', '--help'")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pyarrow" not in done.stdout.splitlines()[-1]


def test_no_command_starts_threads_for_matrices() -> None:
    program = """if True:
        import os
        from tidelog.cli.main import main
        try:
            main(["--version"])
        except SystemExit:
            import numpy
            print(len(os.listdir("/proc/self/task")))
    """
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "1"


def test_the_installed_command_runs(golden: GoldenFactory) -> None:
    done = subprocess.run([*SCRIPT, "info", golden(FLIGHTS), "--jsonl"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[0])["cluster_id"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["count", "--help"], 0),
        (["count", "DIR", "--jsonl"], 0),
        (["verify", "DAMAGED", "flights", "--json"], 1),
        (["nonsense"], 2),
        (["count"], 2),
        (["info", "missing"], 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_python_m_tidelog_is_the_installed_command(
    golden: GoldenFactory, golden_copy: GoldenFactory, arguments: list[str], code: int
) -> None:
    """Both commands print the same text, which names the program ``tidelog``, and return the same exit code."""
    paths = {"DIR": lambda: golden(FLIGHTS), "DAMAGED": lambda: damaged(golden_copy(FLIGHTS))}
    words = [str(paths[word]()) if word in paths else word for word in arguments]
    by_module, by_script = (
        subprocess.run([*command, *words], capture_output=True, text=True, timeout=400) for command in (COMMAND, SCRIPT)
    )
    assert by_module.returncode == code
    assert (by_module.stdout, by_module.stderr) == (by_script.stdout, by_script.stderr)
    assert "python -m" not in by_module.stdout + by_module.stderr
    if "--help" in words:
        assert by_module.stdout.startswith("Usage: tidelog ")


def damaged(directory: Path) -> Path:
    """Flip a bit in the middle of a batch in ``directory``, and return the directory."""
    log = directory / "flights-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[20_000] ^= 1
    log.write_bytes(data)
    return directory


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - WITHOUT_DIRECTORIES))
def test_what_is_no_log_directory_is_unreadable(command: str, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    for path in (tmp_path, tmp_path / "missing"):
        result = run(command, path, code=3)
        assert result.stderr.startswith("Error: ")
        assert str(path) in result.stderr
        assert not result.stdout


def test_export_and_dump_say_what_is_missing(tmp_path: Path) -> None:
    run("export", tmp_path, "--output", tmp_path / "out.jsonl", code=3)
    assert "no such file" in run("dump", tmp_path / "missing.log", code=3).stderr


def test_one_unreadable_directory_does_not_hide_the_others(golden: GoldenFactory, tmp_path: Path) -> None:
    result = run("count", tmp_path / "missing", golden(FLIGHTS), "--topic", "airports", "--jsonl", code=3)
    assert json.loads(result.stdout)["records"] == 3304
    assert "missing" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["count"],
        ["nonsense"],
        ["count", "DIR", "no-such-topic"],
        ["count", "DIR", "--threads", "0"],
        ["count", "DIR", "--json", "--csv"],
        ["count", "nothing-matches-*"],
        ["offsets", "DIR", "--time", "yesterday"],
        ["records", "DIR"],
        ["records", "DIR", "flights", "--follow"],
        ["records", "DIR", "flights-0", "--start", "soon"],
        ["records", "DIR", "flights-0", "--start", "9" * 30],
        ["recover", "DIR", "flights", "--apply"],
        ["recover", "DIR", "--topic-config", "flights"],
        ["recover", "DIR", "--topic-config", "flights:no.such.key=1"],
        ["recover", "DIR", "--topic-config", "flights:segment.bytes=many"],
        ["dump"],
        ["dump", "DIR"],
        ["dump", "DIR/meta.properties", "--print-data-log"],
        ["dump", "DIR/meta.properties", "--kafka-format", "--json"],
        ["dump", "DIR/meta.properties", "--kafka-format", "--value-decoder-class", "com.example.Mine"],
        ["export", "DIR"],
        ["export", "DIR", "--output", "somewhere"],
        ["export", "DIR", "--output", "out.csv", "--format", "parquet"],
        ["export", "DIR", "--output", "DIR/out.csv"],
    ],
    ids=" ".join,
)
def test_wrong_usage(golden: GoldenFactory, arguments: list[str], tmp_path: Path) -> None:
    directory = str(golden(FLIGHTS))
    words = [word.replace("DIR", directory) for word in arguments]
    words = [str(tmp_path / word) if word in ("out.csv", "somewhere") else word for word in words]
    result = run(*words, code=2)
    assert result.stderr
    assert not result.stdout
    assert not list(tmp_path.iterdir())


def test_a_closed_pipe_ends_it_quietly(golden: GoldenFactory) -> None:
    for form in ("--jsonl", "--csv", "--json"):
        with subprocess.Popen(
            [*COMMAND, "records", golden(SCENARIOS), "plain-0", form],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout
            assert process.stderr
            assert process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(60) == 0


def test_a_full_disk_is_an_error_for_people(golden: GoldenFactory) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "count", golden(FLIGHTS), "airports"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 3
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [COMMAND, SCRIPT], ids=["module", "script"])
def test_ctrl_c_ends_with_130(golden: GoldenFactory, command: list[str]) -> None:
    with subprocess.Popen(
        [*command, "records", golden(FLIGHTS), "airports-0", "--follow", "--start", "-1", "--jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert process.stderr
        try:
            assert json.loads(process.stdout.readline())["offset"] == 4503  # now it waits for more
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(60) == 130
            assert b"Traceback" not in process.stderr.read()
        finally:
            process.kill()


def test_names_that_are_not_utf8_can_be_printed(golden: GoldenFactory, tmp_path: Path) -> None:
    strange = tmp_path / os.fsdecode(b"disk-\xff")
    strange.symlink_to(golden(FLIGHTS))
    done = tidelog("count", strange, "airports", "--jsonl")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] == 3304


def test_nothing_is_on_stderr_without_a_terminal(golden: GoldenFactory) -> None:
    done = tidelog("verify", golden(FLIGHTS), "airports", "--json")
    assert (done.returncode, done.stderr) == (0, "")


def on_a_terminal(*arguments: object) -> tuple[str, str]:
    """Return (stdout, stderr) of a run whose stderr is a terminal."""
    master, slave = os.openpty()
    try:
        words = [*COMMAND, *(str(argument) for argument in arguments)]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=slave, text=True, timeout=400, check=True)
        os.set_blocking(master, False)
        try:
            shown = os.read(master, 1_000_000).decode()
        except BlockingIOError:
            shown = ""
        return done.stdout, shown
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize(("command", "title"), [("count", "Counting"), ("verify", "Verifying")])
def test_progress_and_notes_are_for_a_terminal(golden: GoldenFactory, command: str, title: str) -> None:
    out, shown = on_a_terminal(command, golden(FLIGHTS), "--json")
    assert title in shown
    assert str(golden(FLIGHTS)) in shown  # the note
    assert json.loads(out)
    quiet_out, quiet = on_a_terminal(command, golden(FLIGHTS), "--json", "--quiet")
    assert quiet == ""
    assert quiet_out == out
