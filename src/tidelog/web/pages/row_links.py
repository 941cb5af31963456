"""Columns that lead from a row to the page of its log, producer or topic, alike on all pages.

``log_dir`` of a row is the key of the log directory, and ``log`` the name of the partition's directory.
"""

from __future__ import annotations

from tidelog.web import urls
from tidelog.web.page import Column, Kind, Row


def log_column() -> Column:
    return Column(name="log", kind=Kind.CODE, link=log_link)


def log_link(row: Row) -> str:
    return urls.log_url(str(row["log_dir"]), str(row["log"]))


def log_dir_link(row: Row) -> str:
    return urls.log_dir_url(str(row["log_dir"]))


def producer_column() -> Column:
    return Column(name="producer_id", title="producer", kind=Kind.CODE, link=_producer_link)


def _producer_link(row: Row) -> str:
    return urls.producer_url(int(str(row["producer_id"])))


def topic_column() -> Column:
    return Column(name="topic", kind=Kind.CODE, link=_topic_link)


def _topic_link(row: Row) -> str:
    return urls.topic_url(str(row["topic"]))


def undecoded_column() -> Column:
    """Return the column of the number of undecoded records. The link leads to the first, ``first_undecoded``."""
    return Column(
        name="undecoded",
        kind=Kind.NUMBER,
        link=_undecoded_link,
        help="Records of unknown types or versions, and damaged ones",
    )


def _undecoded_link(row: Row) -> str | None:
    if not row["undecoded"]:
        return None
    return urls.records_url(str(row["log_dir"]), str(row["log"]), start=row["first_undecoded"])
