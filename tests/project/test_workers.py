"""The workers' plan: Spark's files stay together and begin, and the waiting files are spread over the run."""

from __future__ import annotations

from project.tree import ROOT
from workers import SEEDS, SPARK, alternated, work_unit


def test_a_unit_is_a_file_or_the_folder_of_spark() -> None:
    assert work_unit("tests/api/test_log.py::TestRead::test_one[a::b]") == "tests/api/test_log.py"
    assert work_unit("tests/spark/jobs/test_tasks.py::test_one") == SPARK
    assert work_unit("tests/spark/test_source.py::test_two") == SPARK


def test_each_test_with_seeds_is_a_unit() -> None:
    one = "tests/simulation/test_seeds.py::test_more_seeds_break_no_invariant[range(150, 400)]"
    assert work_unit(one) == one
    assert all((ROOT / file).is_file() for file in SEEDS)


def test_waiting_files_are_spread_between_the_others() -> None:
    units = ["a", "b", "c", "d", "e", "f", "kafka1", "kafka2", SPARK]
    ordered = alternated(units, lambda unit: unit == SPARK or unit.startswith("kafka"))
    assert ordered == [SPARK, "a", "kafka1", "b", "c", "kafka2", "d", "e", "f"]
