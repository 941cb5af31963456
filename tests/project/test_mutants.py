"""The mutants of ``tests/mutants`` and the script that applies them: each fits the tree, and each is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mutants import Fate, Mutant, MutantError, TreeCopy, failing_before, read_mutants, try_mutants
from project.parity_page import BEHAVIOURS, code, require_test
from project.tree import ROOT

MUTANTS = read_mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_tree(mutant: Mutant) -> None:
    """The place of a mutant occurs once in its file, the changed file is a program, and its tests exist."""
    source = mutant.apply_to((ROOT / mutant.file).read_text())
    if mutant.file.endswith(".py"):
        compile(source, mutant.file, "exec")
    assert mutant.find != mutant.replace
    assert mutant.rule.endswith("."), "a rule is a sentence"
    assert mutant.tests, "no test kills it"
    for test in mutant.tests:
        require_test(f"`{test.removeprefix('tests/')}`")


@pytest.mark.parametrize("row", sorted({row for mutant in MUTANTS for row in mutant.rows}))
def test_the_test_of_a_row_of_parity_kills_a_mutant_of_its_rule(row: str) -> None:
    """``make mutants`` shows that the row's test fails if the row's rule is broken."""
    (behaviour,) = [one for one in BEHAVIOURS if one.id == row]
    killers = {test for mutant in MUTANTS if row in mutant.rows for test in mutant.tests}
    assert f"tests/{code(behaviour.test)}" in killers


def test_a_place_that_occurs_twice_or_not_at_all_is_refused() -> None:
    mutant = Mutant(name="m", rule="", file="f.py", find="a", replace="b", tests=())
    assert mutant.apply_to("bar") == "bbr"
    for text, count in (("", 0), ("banana", 3)):
        with pytest.raises(MutantError, match=f"m: the text to replace occurs {count} times in f.py, not once"):
            mutant.apply_to(text)


def test_a_name_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    table = '[m]\nrule = ""\nfile = ""\nfind = ""\nreplace = ""\ntests = []\n'
    (tmp_path / "one.toml").write_text(table)
    assert [mutant.name for mutant in read_mutants(tmp_path)] == ["m"]
    (tmp_path / "two.toml").write_text(table)
    with pytest.raises(MutantError, match=r"two\.toml: there is another mutant named m"):
        read_mutants(tmp_path)


class TestRunner:
    """The runner in a project of two files, whose mutants die in every possible way."""

    SOURCE = "def half(number):\n    return number // 2\n"
    TESTS = """\
import pytest

from halves import half


@pytest.mark.parametrize("number", [1, 4])
def test_half(number):
    assert half(number) == number // 2


def test_of_nothing():
    assert half(0) == 0


def test_by_exception():
    with pytest.raises(TypeError):
        half("text")


class TestLater:
    def test_half(self):
        assert half(8) == 4


def test_that_fails():
    assert half(1) == 1
"""

    @pytest.fixture
    def copy(self, tmp_path: Path) -> TreeCopy:
        project = tmp_path / "project"
        for path, text in (
            ("src/halves.py", self.SOURCE),
            ("tests/test_halves.py", self.TESTS),
            ("pyproject.toml", ""),
            (".cache/kept", ""),
            (".git/left_out", ""),
        ):
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            (project / path).write_text(text)
        return TreeCopy(tmp_path / "home", project)

    def mutant(self, replace: str, *tests: str, find: str = "number // 2") -> Mutant:
        named = tuple(f"tests/test_halves.py::{test}" for test in tests)
        return Mutant(name="m", rule="", file="src/halves.py", find=find, replace=replace, tests=named)

    @pytest.mark.parametrize(
        ("replace", "tests", "fate"),
        [
            pytest.param("number", ["test_half"], "killed", id="with parameters"),
            pytest.param("number // 2 if number < 3 else 0", ["test_half"], "killed", id="for one parameter"),
            pytest.param("number", ["TestLater::test_half", "test_half"], "killed", id="by two tests"),
            pytest.param("int(number) // 2 if number != 'text' else 0", ["test_by_exception"], "killed", id="no raise"),
            pytest.param("number", ["test_of_nothing"], "LIVED", id="a test of something else"),
            pytest.param("number", ["test_half", "test_of_nothing"], "LIVED", id="one of two tests passes"),
            pytest.param("number", [], "LIVED", id="no test"),
            pytest.param("nunber // 2", ["test_half"], "UNCLEAR", id="a name that is not there"),
            pytest.param("number // ", ["test_half"], "UNCLEAR", id="a syntax error"),
            pytest.param("number", ["test_halves"], "UNCLEAR", id="a test that is not there"),
        ],
    )
    def test_a_verdict(self, copy: TreeCopy, replace: str, tests: list[str], fate: str) -> None:
        mutant = self.mutant(replace, *tests)
        ((_, verdict, _),) = try_mutants([copy], [mutant])
        assert verdict.fate == fate, verdict
        assert (copy.root / mutant.file).read_text() == self.SOURCE

    def test_a_mutant_that_does_not_fit(self, copy: TreeCopy) -> None:
        ((_, verdict, _),) = try_mutants([copy], [self.mutant("1", "test_half", find="nowhere")])
        assert verdict == (Fate.UNCLEAR, "m: the text to replace occurs 0 times in src/halves.py, not once")

    def test_one_mutant_leaves_nothing_to_the_next(self, copy: TreeCopy) -> None:
        """Neither the changed text nor its bytecode remains, though both texts have the same size and time."""
        mutant = self.mutant("number // 1", "test_half")
        for _ in range(2):
            ((_, verdict, _),) = try_mutants([copy], [mutant])
            assert verdict.fate == "killed"
            assert failing_before([copy], [mutant]) == []

    def test_tests_that_fail_before(self, copy: TreeCopy) -> None:
        fails, passes = self.mutant("number", "test_that_fails"), self.mutant("number", "test_half")
        assert failing_before([copy], [passes, fails]) == list(fails.tests)
        nowhere = self.mutant("number", "test_that_is_not_there")
        assert failing_before([copy], [nowhere]) == list(nowhere.tests)

    def test_what_is_copied(self, copy: TreeCopy) -> None:
        assert sorted(path.name for path in copy.root.iterdir()) == [".cache", "pyproject.toml", "src", "tests"]
        assert (copy.root / ".cache").is_symlink()


def test_an_unknown_name_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/mutants.py", "no-such-mutant"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no such mutant: no-such-mutant" in done.stderr


@pytest.mark.slow
def test_every_mutant_is_killed() -> None:
    done = subprocess.run([sys.executable, "scripts/mutants.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"\n{len(MUTANTS)} of {len(MUTANTS)} killed in " in done.stdout
