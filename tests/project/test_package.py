"""The published package works on its own: sdist and wheel are built, installed into bare environments, and used."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from golden_sets import SCENARIOS, footprint, manifest
from project.tree import ROOT, project_files
from tidelog.version import __version__

pytestmark = pytest.mark.timeout(2400)
"""The build compiles every kernel, and the bare environment installs Arrow."""

READ_A_LOG = """
import json, sys
import tidelog
import tidelog.kernel

assert "site-packages" in tidelog.__file__, tidelog.__file__
with tidelog.open_directory(sys.argv[1], read_only=True) as directory:
    records = directory.log("plain", 0).records()
    offsets = [record.offset for record in records]
print(json.dumps([len(offsets), offsets[0], offsets[-1], tidelog.__version__]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    sdist: Path
    wheel: Path
    sources: set[Path]
    """Every file below src that went in."""


def run(*command: str | Path, cwd: Path | None = None, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TIDELOG"))}
    environment |= variables
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist of the files that belong to the project, and the wheel built from that sdist alone.

    Its kernels are not optimised, which takes a quarter of the time.
    """
    source = tmp_path_factory.mktemp("source")
    for path in project_files():
        if path.parts[0] != "tests":
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_bytes((ROOT / path).read_bytes())
    files = {path.relative_to(source) for path in (source / "src").rglob("*") if path.is_file()}
    target = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", target, source, CFLAGS="-O0")
    return Built(sdist=next(target.glob("*.tar.gz")), wheel=next(target.glob("*.whl")), sources=files)


@pytest.fixture(scope="module")
def bare(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of a new environment with only the wheel and its dependencies."""
    environment = tmp_path_factory.mktemp("bare") / "venv"
    run(sys.executable, "-m", "venv", environment)
    python = environment / "bin" / "python"
    run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-compile",
        *constrained(ROOT / "requirements" / "dev.txt", environment),
        built.wheel,
    )
    return python


def constrained(lock: Path, directory: Path) -> tuple[str | Path, ...]:
    """The versions of the lock file as constraints (without hashes: a wheel of our own has none there)."""
    versions = [line.removesuffix(" \\") for line in lock.read_text().splitlines() if line[:1].isalnum()]
    constraints = directory / "constraints.txt"
    constraints.write_text("\n".join(versions) + "\n")
    return "--constraint", constraints


def test_the_wheel_has_types_kernels_and_licence_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        names = archive.namelist()
    assert built.wheel.name.startswith(f"tidelog-{__version__}-")
    assert "tidelog/py.typed" in names
    assert "pyspark_tidelog/__init__.py" in names
    modules = {str(path.relative_to("src")) for path in built.sources if path.suffix in {".py", ".pyi"}}
    assert modules <= set(names), "a folder without __init__.py is not packaged"
    kernels = {path.stem for path in built.sources if path.suffix == ".pyx"}
    assert kernels == {Path(name).name.partition(".")[0] for name in names if name.endswith(".so")}
    if shutil.which("javac"):  # and PySpark, which this environment has
        assert "tidelog/spark/jvm/tidelog-spark.jar" in names
    assert {Path(name).name for name in names if "licenses/" in name} == {"LICENSE", "NOTICE"}
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"tidelog", "pyspark_tidelog"}


def test_the_sdist_has_what_the_build_needs(built: Built) -> None:
    top = f"tidelog-{__version__}/"
    with tarfile.open(built.sdist) as archive:
        names = {name.removeprefix(top) for name in archive.getnames()}
    wanted = {str(path) for path in built.sources} | {"setup.py", "pyproject.toml", "LICENSE", "NOTICE"}
    assert wanted <= names


def test_the_installed_package_reads_a_directory(bare: Path, golden: Callable[..., Path], tmp_path: Path) -> None:
    directory = golden(SCENARIOS)
    before = footprint(directory)
    entry = manifest(SCENARIOS)["plain-0"]["read_uncommitted"]
    count, first, last, version = json.loads(run(bare, "-I", "-c", READ_A_LOG, directory, cwd=tmp_path))
    assert (count, first, last) == (entry["count"], entry["first"], entry["last"])
    assert version == __version__
    assert footprint(directory) == before


def test_the_installed_command_runs(bare: Path, golden: Callable[..., Path], tmp_path: Path) -> None:
    command = bare.parent / "tidelog"
    assert "Usage: tidelog" in run(command, "--help", cwd=tmp_path)
    assert __version__ in run(command, "--version", cwd=tmp_path)
    rows = json.loads(run(command, "count", golden(SCENARIOS), "--json", cwd=tmp_path))
    assert rows


def test_importing_needs_neither_numpy_nor_arrow(bare: Path, tmp_path: Path) -> None:
    script = "import sys, tidelog; print(sorted({'numpy', 'pyarrow', 'click', 'rich'} & set(sys.modules)))"
    assert run(bare, "-I", "-c", script, cwd=tmp_path).strip() == "[]"


@pytest.mark.parametrize(
    ("compiler", "include", "missing"),
    [("no-such-compiler", None, "there is no 'no-such-compiler'"), ("true", "/nowhere", "there is no Python.h")],
)
def test_a_build_without_a_compiler_is_refused_in_a_sentence(
    tmp_path: Path, compiler: str, include: str | None, missing: str
) -> None:
    """The second case runs with headers elsewhere, as on a machine without the package of the headers."""
    kernel = tmp_path / "src" / "tidelog" / "kernel"
    kernel.mkdir(parents=True)
    (kernel / "_nothing.pyx").write_text("# cython: language_level=3\n")
    script = "import sysconfig, runpy, sys; sys.argv = ['setup.py', 'build_ext']\n"
    if include is not None:
        script += f"sysconfig.get_path = lambda *_arguments, **_variables: {include!r}\n"
    script += f"runpy.run_path({str(ROOT / 'setup.py')!r})"
    environment = {**os.environ, "CC": compiler}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert missing in done.stderr
    assert "apt-get install gcc" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_package_without_kernels_names_them(tmp_path: Path) -> None:
    for path in project_files():
        if path.is_relative_to("src") and path.suffix == ".py":
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes((ROOT / path).read_bytes())
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    command = [sys.executable, "-c", "import tidelog; tidelog.open_directory('.', read_only=True)"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "ImportError: the kernels of this tidelog are not compiled for Python 3." in done.stderr
