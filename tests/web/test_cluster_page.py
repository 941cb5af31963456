"""The first page: log directories, topics and their space."""

from __future__ import annotations

from conftest import GoldenFactory
from golden_sets import CLUSTER, SCENARIOS, UNCLEAN_ELECTION
from web.harness import check_picture, facts_of, read_page, rows_of, section_of, serving


def test_the_space_of_topics_is_that_of_their_files(golden: GoldenFactory) -> None:
    path = golden(SCENARIOS)
    page = read_page(path, "/?topics.sort=topic")
    rows = rows_of(page, "topics")
    assert [row["topic"] for row in rows] == sorted(row["topic"] for row in rows)
    plain = next(row for row in rows if row["topic"] == "plain")
    files = [file for partition in range(3) for file in (path / f"plain-{partition}").iterdir()]
    assert plain["bytes"] == sum(file.stat().st_size for file in files)
    assert plain["segments"] == sum(file.suffix == ".log" for file in files)
    assert facts_of(page)["bytes"] == sum(row["bytes"] for row in rows)
    check_picture(section_of(page, "topics"))


def test_the_condition_of_each_log_directory(golden: GoldenFactory) -> None:
    brokers = golden(CLUSTER, UNCLEAN_ELECTION)
    page = read_page([brokers / "broker1", brokers / "broker2"], "/")
    rows = rows_of(page, "log_dirs")
    assert [row["node_id"] for row in rows] == [1, 2]
    assert {row["condition"] for row in rows} == {"unclean"}
    assert rows_of(read_page(golden(SCENARIOS), "/"), "log_dirs")[0]["condition"] == "clean"


def test_html_and_json_have_the_same_rows(golden: GoldenFactory) -> None:
    with serving(golden(SCENARIOS)) as served:
        html = served.ready("/?topic=plain")
        found = served.ready("/index.json?topic=plain").json
    assert [row["topic"] for row in found["sections"]["topics"]["rows"]] == ["plain"]
    assert html.status == 200
    assert "/topics/plain" in html.text
    assert "/topics/compacted" not in html.text
