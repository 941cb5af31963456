"""The random mutations of ``scripts/mutation.py``: their places, their tests and their fates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest
from mutation_operators import find_mutations

import mutation
from mutants import MutantError, TreeCopy
from mutation import Fate, Outcome, Results
from project.tree import ROOT


def edits(source: str) -> set[tuple[str, str]]:
    return {(one.operator, one.after) for one in find_mutations("f.py", dedent(source))}


def in_function(statement: str) -> set[tuple[str, str]]:
    return edits(f"def f():\n    {statement}\n")


class TestOperators:
    @pytest.mark.parametrize(
        ("statement", "expected"),
        [
            ("x = a < b", {("boundary", "x = a <= b"), ("comparison", "x = a > b")}),
            ("x = a >= b", {("boundary", "x = a > b"), ("comparison", "x = a <= b")}),
            ("x = a not in b", {("comparison", "x = a in b")}),
            ("x = a is b", {("comparison", "x = a is not b")}),
            ("x = (a) == (b)", {("comparison", "x = (a) != (b)")}),
            ("x = a + b", {("arithmetic", "x = a - b")}),
            ("x = a % b", {("arithmetic", "x = a // b")}),
            ("x += a", {("arithmetic", "x -= a"), ("removed statement", "pass")}),
            ("x = a and b and c", {("boolean", "x = a or b and c"), ("boolean", "x = a and b or c")}),
            ("x = 7", {("constant", "x = 8")}),
            ("x = True", {("constant", "x = False")}),
            ("return a", {("return value", "return None")}),
            ("return False", {("constant", "return True")}),
            ("g(a, b, c)", {("removed statement", "pass"), ("swapped argument", "g(b, a, c)")}),
            ("x.y = a", {("removed statement", "pass")}),
            ("raise ValueError('it is ' + a)", {("removed statement", "pass")}),
            ("x = a if b else c", {("negated condition", "x = a if (not (b)) else c")}),
            ("x = [a for a in b if not c]", {("negated condition", "x = [a for a in b if (c)]")}),
        ],
    )
    def test_of_a_statement(self, statement: str, expected: set[tuple[str, str]]) -> None:
        assert in_function(statement) == expected

    def test_a_condition(self) -> None:
        assert edits("def f():\n    if a:\n        b = c") == {("negated condition", "if (not (a)):")}

    @pytest.mark.parametrize(
        "source",
        [
            '"""Doc 1 < 2."""',
            "def f(a: Literal[1], b: int | None) -> Literal[2]: ...",
            "x: Literal[1] = y",
            "_log.warning('%d', a + 1)",
            "self._log.info(a < b)",
            "assert a < b, a + 1",
            "@cache(maxsize=1)\ndef f(): ...",
            "class C:\n    def __repr__(self):\n        return 1 + 2",
            "Alias = Left | Right",
            "x = max(a, b)",
            "x = cast(Literal[1], y)",
            "if TYPE_CHECKING:\n    x = 1",
            "return_ = 'text' + a",
        ],
    )
    def test_what_stays(self, source: str) -> None:
        assert edits(source) == set()

    def test_a_name_does_not_depend_on_the_line(self) -> None:
        source = "def f():\n    g(1)\n    g(1)\n"
        names = [one.key for one in find_mutations("f.py", source)]
        assert names == [one.key for one in find_mutations("f.py", "\n\nx = y\n" + source)]
        assert len(set(names)) == len(names)
        assert {one.function for one in find_mutations("f.py", source)} == {"f"}

    def test_a_default_is_tried_by_the_tests_that_enter_the_function(self) -> None:
        """No test executes the line of a docstring."""
        for source, first in [
            ('def f(a=1):\n    """Doc."""\n    return g\n', 3),
            ("def f(a=1):\n    return g\n", 2),
            ('def f(a=1):\n    """Doc."""\n', 2),
        ]:
            default = next(one for one in find_mutations("f.py", source) if one.operator == "constant")
            assert default.run_lines == range(1, first + 1)

    def test_an_edit_after_other_alphabets(self) -> None:
        (one,) = find_mutations("f.py", 'def f():\n    x = "größer", a == b\n')
        assert one.apply_to('def f():\n    x = "größer", a == b\n') == 'def f():\n    x = "größer", a != b\n'


def test_the_choice_depends_on_the_seed_and_grows_at_its_end() -> None:
    path = "src/tidelog/record/file.py"
    sources = {path: "".join(f"def f{number}(a):\n    return a + {number}\n" for number in range(50))}

    def keys(seed: int, count: int) -> list[str]:
        return [one.key for one in mutation.choose(sources, "record", seed=seed, count=count)]

    assert keys(1, 20) == keys(1, 20)
    assert keys(1, 20)[:10] == keys(1, 10)
    assert set(keys(1, 20)) != set(keys(2, 20))
    more = {**sources, "src/tidelog/record/other.py": "def g(a):\n    return a\n"}
    chosen = [one.key for one in mutation.choose(more, "record", seed=1, count=151)]
    assert [key for key in chosen if key.startswith(path)] == keys(1, 150), "another file changes no rank"


def test_results_are_continued(tmp_path: Path) -> None:
    results = Results(tmp_path / "new" / "1.jsonl")
    results.add(Outcome(room="r", key="a", fate=Fate.SURVIVED, line=1))
    results.add(Outcome(room="r", key="b", fate=Fate.KILLED, line=2, test="t", tests=3, seconds=0.5))
    results.add(Outcome(room="r", key="a", fate=Fate.KILLED, line=1))
    read = Results(tmp_path / "new" / "1.jsonl")
    assert read.by_key == results.by_key
    assert read.by_key["a"].fate is Fate.KILLED
    read.drop(["a"])
    assert Results(tmp_path / "new" / "1.jsonl").by_key.keys() == {"b"}


class TestRun:
    """A project with one module, of which every line has another fate."""

    SOURCE = """\
    import time

    LIMIT = 3
    SMALLEST = 5
    SIZES = (
        SMALLEST,
    )


    def smallest():
        return SIZES[0]


    def within(number):
        return number < LIMIT


    def half(number):
        print("half", number)
        return number // 2


    def unused(number):
        return number + 1


    def count_down(number):
        while number:
            time.sleep(0.01)
            number -= 1
        return "done" if SMALLEST else ""
    """
    TESTS = """\
    import pytest

    from tidelog.record.file import count_down, half, smallest, within


    @pytest.mark.parametrize("number", [1, 3])
    def test_within(number):
        assert within(number) == (number == 1)


    def test_half():
        assert half(4) == 2


    def test_smallest():
        assert smallest() == 5


    def test_count_down():
        assert count_down(2) == "done"


    def test_that_fails():
        assert half(1) == 1
    """

    @pytest.fixture
    def copy(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TreeCopy:
        project = tmp_path / "project"
        for path, text in (
            ("src/tidelog/__init__.py", ""),
            ("src/tidelog/record/__init__.py", ""),
            ("src/tidelog/testing/pytest_plugin.py", ""),  # an installed tidelog makes pytest import it
            ("src/tidelog/record/file.py", self.SOURCE),
            ("tests/record/test_file.py", self.TESTS),
            ("pyproject.toml", ""),
        ):
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            (project / path).write_text(dedent(text))
        monkeypatch.setattr(mutation, "HOME", tmp_path / "results")
        monkeypatch.setattr(mutation, "ROOMS", {"record": ("tests/record",)})
        monkeypatch.setattr(mutation, "PATIENCE_SECONDS", 20.0)
        return TreeCopy(tmp_path / "copy", project)

    def test_fates(self, copy: TreeCopy, tmp_path: Path) -> None:
        sources = mutation.read_sources(copy.root)
        chosen = mutation.choose(sources, "record", seed=1, count=100)
        expected = {
            "LIMIT = 4": Fate.KILLED,
            "SMALLEST = 6": Fate.KILLED,
            "return number <= LIMIT": Fate.KILLED,
            'print(number, "half")': Fate.SURVIVED,
            "return number * 2": Fate.KILLED,
            "return number - 1": Fate.UNCOVERED,
            "number += 1": Fate.TIMEOUT,
        }
        results = Results(tmp_path / "1.jsonl")
        mutation.run_room("record", [one for one in chosen if one.after in expected], results, [copy])
        by_text = {one.after: results.by_key.get(one.key) for one in chosen if one.after in expected}
        assert {text: outcome and outcome.fate for text, outcome in by_text.items()} == expected
        killed = by_text["return number * 2"]
        assert killed
        assert killed.test == "tests/record/test_file.py::test_half", "a test that fails anyway proves nothing"
        assert mutation.score(chosen, results, []) == (7, 4, 1, 1, 1, 0)
        survivor = next(mutation.identity(one) for one in chosen if one.after == 'print(number, "half")')
        with_equivalent = mutation.score(chosen, results, [survivor])
        assert with_equivalent == (7, 4, 1, 0, 1, 1)
        assert with_equivalent.percent == pytest.approx(100 * 5 / 6)
        assert (copy.root / "src/tidelog/record/file.py").read_text() == dedent(self.SOURCE)

    def test_a_test_that_fails_without_the_mutation_proves_nothing(self, copy: TreeCopy) -> None:
        def outcome(test: str) -> Outcome:
            return Outcome(room="record", key=test, fate=Fate.KILLED, line=1, test=f"tests/record/test_file.py::{test}")

        assert mutation.unproved(copy, [outcome("test_half"), outcome("test_that_fails")]) == ["test_that_fails"]

    def test_tests_that_cannot_run_are_an_error(self, copy: TreeCopy) -> None:
        one = mutation.choose(mutation.read_sources(copy.root), "record", seed=1, count=1)[0]
        trial = mutation.Trial("record", one, ["tests/record/nowhere.py"], [0.1])
        with pytest.raises(MutantError, match=r"pytest cannot run tests/record/nowhere\.py"):
            mutation.try_mutation(copy, trial)


def test_the_first_run_is_small() -> None:
    def sizes(seconds: Sequence[float]) -> list[int]:
        (one,) = find_mutations("f.py", "x = 1\n")
        trial = mutation.Trial("record", one, [str(number) for number in range(len(seconds))], list(seconds))
        return [len(tests) for tests, _ in mutation.stages(trial)]

    assert sizes([]) == []
    assert sizes([9.0, 9.0]) == [1, 1], "one test at least"
    assert sizes([1.0, 1.0]) == [2]
    assert sizes([0.01] * 100) == [mutation.FIRST_TESTS, 60]


def test_equivalent_mutations_fit_the_code() -> None:
    for known, reason in mutation.read_equivalent().items():
        file = known[0]
        assert known in [mutation.identity(one) for one in find_mutations(file, (ROOT / file).read_text())], known
        assert reason.endswith("."), "a reason is a sentence"
