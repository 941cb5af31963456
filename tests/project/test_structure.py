"""The counts of ``scripts/structure.py``, and the bounds that the project keeps."""

from __future__ import annotations

from pathlib import Path

import structure

from project.tree import ROOT

MAX_PAIRS = 9
"""The number of pairs of folders that import each other. Lower it after removing one."""
MAX_SOURCE_LINES = 149_018
"""The size of src. Lower it after a change that makes src smaller; a new feature may raise it."""
TREE = structure.Tree(ROOT)


def test_the_pairs_of_folders_that_import_each_other_get_fewer() -> None:
    assert len(TREE.pairs) <= MAX_PAIRS, "\n".join(f"{one} <-> {other}" for one, other in TREE.pairs)


def test_the_size_of_the_source() -> None:
    assert TREE.source_lines <= MAX_SOURCE_LINES


def test_counts_of_a_small_tree(tmp_path: Path) -> None:
    for path, text in {
        "src/tidelog/__init__.py": "",
        "src/tidelog/low/__init__.py": "from tidelog.low.one import f\n",
        "src/tidelog/low/one.py": "def f(x: Any) -> Any:\n    from tidelog.high.two import Two\n",
        "src/tidelog/high/__init__.py": "",
        "src/tidelog/high/two.py": "from tidelog.low import one\nclass Two:\n    def g(self):\n" + "        f()\n" * 50,
        "src/tidelog/top.py": "import tidelog.high.two\nfrom tidelog import low\n\n",
        "src/tidelog/fast.pyx": "\n" * 7,
        "tests/test_it.py": "\n" * 9,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    tree = structure.Tree(tmp_path)
    assert tree.pairs == [("tidelog.high", "tidelog.low")]
    assert tree.counts() == {
        "files of src": "7",
        "median lines of a file": "5",
        "largest file": "53 (tidelog/high/two.py)",
        "functions over 50 lines": "1",
        "files with one function and no class": "1",
        "packages": "3",
        "pairs of folders that import each other": "1",
        "`Any` in src": "2",
        "lines of src": "66",
        "lines of tests": "9",
    }
