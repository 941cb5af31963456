"""Pages as HTML: Jinja's environment with the filters of the templates.

Jinja escapes every value. A picture's SVG and the values of ``cells`` are inserted as they are: their modules have
escaped them. Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from tidelog.inspect.printable import escaped
from tidelog.version import __version__
from tidelog.web import urls
from tidelog.web.cells import is_right, rows_html, value_html
from tidelog.web.jobs import JobProgress
from tidelog.web.page import Column, Link, Page, Paging, Picture
from tidelog.web.query import Query
from tidelog.web.request import PageRequest
from tidelog.web.shown import shown

NAVIGATION: Sequence[Link] = (
    Link("Cluster", urls.CLUSTER),
    Link("Groups", urls.GROUPS),
    Link("Transactions", urls.TRANSACTIONS),
    Link("Producers", urls.PRODUCERS),
    Link("Retention", urls.RETENTION),
    Link("Cleaner", urls.CLEANER),
    Link("Metadata", urls.METADATA),
    Link("Findings", urls.FINDINGS),
    Link("Compare", urls.COMPARE),
    Link("Count", urls.COUNT),
)
_BROKER = Link("Broker", urls.BROKER)


def navigation_of(request: PageRequest) -> Sequence[Link]:
    """Return the links to the pages, with the broker's if there is a running one."""
    return NAVIGATION if request.broker is None else (*NAVIGATION, _BROKER)


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("tidelog.web"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"shown": shown, "escaped": escaped}
    made.globals |= {"navigation": NAVIGATION, "version": __version__, "heading": heading}
    made.globals |= {"is_right": is_right, "value": value_html, "rows": rows_html}
    return made


def page_html(page: Page, path: str, query: Query, navigation: Sequence[Link] = NAVIGATION) -> str:
    """Return the HTML of a page. ``path`` is the URL's path, still escaped."""
    unused = query.unused()
    return (
        environment()
        .get_template("page.html")
        .render(
            page=page,
            path=path,
            query=query,
            navigation=navigation,
            unused=unused,
            json_url=urls.json_path(path) + _suffix(query),
            follow_url=urls.json_path(path) + query.with_changes(page.follow_query),
            sort_url=lambda section, column, paging: _sort_url(query, section, column, paging),
            page_url=lambda section, number: query.with_changes({f"{section}.page": str(number)}),
            picture_svg=lambda picture: _svg(picture),
            hidden=lambda names: [(name, value) for name, value in query.items() if name not in names],
        )
    )


def running_html(
    title: str, progress: JobProgress, now_ms: int, path: str, navigation: Sequence[Link] = NAVIGATION
) -> str:
    """Return the page that stands for a report that is still being made. It loads itself again."""
    return (
        environment()
        .get_template("running.html")
        .render(title=title, progress=progress, elapsed_ms=now_ms - progress.begun_ms, path=path, navigation=navigation)
    )


def error_html(
    status: int,
    title: str,
    message: str,
    details: Mapping[str, object],
    navigation: Sequence[Link] = NAVIGATION,
) -> str:
    return (
        environment()
        .get_template("error.html")
        .render(status=status, title=title, message=message, details=details, path="", navigation=navigation)
    )


def login_html(message: str, target: str, navigation: Sequence[Link] = NAVIGATION) -> str:
    return (
        environment().get_template("login.html").render(message=message, target=target, path="", navigation=navigation)
    )


def heading(column: Column) -> str:
    return column.title or column.name.replace("_", " ")


def _suffix(query: Query) -> str:
    text = query.with_changes({})
    return "" if text == "?" else text


def _sort_url(query: Query, section: str, column: str, paging: Paging) -> str:
    order = f"-{column}" if paging.sort == column else column
    return query.with_changes({f"{section}.sort": order, f"{section}.page": None})


def _svg(picture: Picture) -> Markup:
    return Markup(picture.draw())
