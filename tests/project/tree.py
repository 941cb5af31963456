"""The repository as the project's own checks see it: its root and the files that belong to it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
SOURCE_SUFFIXES = (".py", ".pyx", ".pxd", ".pyi", ".h", ".c")


def project_files(*patterns: str) -> list[Path]:
    """Tracked files and those about to be (not ignored), as paths relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted({Path(name) for name in names if (ROOT / name).is_file()})


def source_files() -> list[Path]:
    return [path for path in project_files("src") if path.suffix in SOURCE_SUFFIXES]


def python_files() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".py"]


def load(path: str) -> ModuleType:
    """Return a script of the repository as a module."""
    name = f"script_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
