"""The pages and their URLs.

A pattern's part in braces is a named part of the path; ``urls`` writes the URLs. The JSON of a page has the same URL
with ``.json`` at the end. Page functions are imported at the first request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from tidelog.web.page import Page
from tidelog.web.request import PageRequest
from tidelog.web.sources import NotFoundError
from tidelog.web.urls import unquote_part

PageFunction = Callable[[PageRequest], Page]


@dataclass(frozen=True, slots=True)
class Route:
    """``function`` is MODULE:NAME below ``tidelog.web.pages``."""

    pattern: str
    function: str

    def load(self) -> PageFunction:
        module, _, name = self.function.partition(":")
        return cast(PageFunction, getattr(import_module(f"tidelog.web.pages.{module}"), name))

    def match(self, parts: list[str]) -> dict[str, str] | None:
        """Return the named parts, or None if the path does not match."""
        own = self.pattern.split("/")[1:]
        if len(own) != len(parts):
            return None
        found = {}
        for mine, part in zip(own, parts, strict=True):
            if mine.startswith("{") and part:
                found[mine[1:-1]] = unquote_part(part)
            elif mine != part:
                return None
        return found


ROUTES = (
    Route("/", "cluster:cluster_page"),
    Route("/topics/{topic}", "topic:topic_page"),
    Route("/logs/{dir}", "log_dir:log_dir_page"),
    Route("/logs/{dir}/{log}", "log:log_page"),
    Route("/logs/{dir}/{log}/segments/{base}", "segment:segment_page"),
    Route("/logs/{dir}/{log}/segments/{base}/batches/{position}", "batch:batch_page"),
    Route("/logs/{dir}/{log}/records", "records:records_page"),
    Route("/logs/{dir}/{log}/producers", "producers:log_producers_page"),
    Route("/logs/{dir}/{log}/transactions", "transactions:log_transactions_page"),
    Route("/logs/{dir}/{log}/cleaner", "log_cleaner:log_cleaner_page"),
    Route("/logs/{dir}/{log}/count", "count:log_count_page"),
    Route("/logs/{dir}/{log}/findings", "findings:log_findings_page"),
    Route("/groups", "groups:groups_page"),
    Route("/groups/{group}", "groups:group_page"),
    Route("/transactions", "transactions:transactions_page"),
    Route("/producers", "producers:producers_page"),
    Route("/retention", "retention:retention_page"),
    Route("/cleaner", "cleaner:cleaner_page"),
    Route("/metadata", "metadata:metadata_page"),
    Route("/metadata/log", "metadata_log:metadata_log_page"),
    Route("/findings", "findings:findings_page"),
    Route("/count", "count:count_page"),
    Route("/compare", "compare:compare_page"),
    Route("/compare/{partition}", "compare_partition:compare_partition_page"),
    Route("/broker", "broker:broker_page"),
)


def find_page(path: str) -> tuple[PageFunction, Mapping[str, str]]:
    """Return the function and the named parts for a path that is still escaped. Raise NotFoundError."""
    parts = path.split("/")[1:]
    for route in ROUTES:
        found = route.match(parts)
        if found is not None:
            return route.load(), found
    raise NotFoundError(f"there is no page {path[:200]}")
