"""The URLs of the pages: the only module that writes one. ``routes`` has their patterns. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote_to_bytes, urlencode

JSON_SUFFIX: Final = ".json"
_QUOTED_SUFFIX = "%2Ejson"
CLUSTER = "/"
GROUPS = "/groups"
TRANSACTIONS = "/transactions"
PRODUCERS = "/producers"
RETENTION = "/retention"
CLEANER = "/cleaner"
METADATA = "/metadata"
METADATA_LOG = "/metadata/log"
FINDINGS = "/findings"
COMPARE = "/compare"
COUNT = "/count"
BROKER = "/broker"


def with_query(url: str, query: Mapping[str, object]) -> str:
    """Add parameters. Parameters that are None are left out."""
    given = {name: str(value) for name, value in query.items() if value is not None}
    return f"{url}?{urlencode(given, errors='replace')}" if given else url


def log_dir_url(key: str) -> str:
    return f"/logs/{_part(key)}"


def topic_url(topic: str) -> str:
    return f"/topics/{_part(topic)}"


def log_url(key: str, name: str) -> str:
    """Return the URL of a partition's log. ``key`` is that of the log directory, ``name`` the directory's name."""
    return f"/logs/{_part(key)}/{_part(name)}"


def segment_url(key: str, name: str, base_offset: int) -> str:
    return f"{log_url(key, name)}/segments/{base_offset}"


def batch_url(key: str, name: str, base_offset: int, position: int) -> str:
    return f"{segment_url(key, name, base_offset)}/batches/{position}"


def records_url(key: str, name: str, /, **query: object) -> str:
    return with_query(f"{log_url(key, name)}/records", query)


def log_part_url(key: str, name: str, part: str) -> str:
    """Return the URL of a page about one log. ``part`` is its name in the pattern, for example ``producers``."""
    return f"{log_url(key, name)}/{_part(part)}"


def group_url(group: str) -> str:
    return f"{GROUPS}/{_part(group)}"


def producer_url(producer_id: int) -> str:
    """Return the URL of the logs that know a producer."""
    return with_query(PRODUCERS, {"producer": producer_id})


def compare_url(partition: str) -> str:
    return f"{COMPARE}/{_part(partition)}"


def split_suffix(path: str) -> tuple[str, bool]:
    """Return a path without ``.json`` at its end, and True if it had one. ``/index.json`` is the JSON of ``/``."""
    if not path.endswith(JSON_SUFFIX):
        return path, False
    path = path.removesuffix(JSON_SUFFIX)
    return ("/" if path == "/index" else path), True


def json_path(path: str) -> str:
    """Return the path of a page's JSON, of which ``split_suffix`` is the reverse."""
    return ("/index" if path == "/" else path) + JSON_SUFFIX


def unquote_part(part: str) -> str:
    """Return the text of a part of a URL's path, of which ``_part`` is the reverse. Every part has a text."""
    quoted = unquote_to_bytes(part)
    try:
        text = quoted.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = quoted.decode("utf-8", "surrogateescape")
    return text[1:] if text.startswith("~") else text


def _part(text: str) -> str:
    # Browsers resolve the parts "." and "..", and an empty part would vanish, so these begin with a tilde.
    is_plain = bool(text.strip(".")) and not text.startswith("~")
    quoted = quote(text if is_plain else "~" + text, safe="", errors="surrogatepass")
    if quoted.endswith(JSON_SUFFIX):  # the end of a name, which asks for no JSON
        quoted = quoted.removesuffix(JSON_SUFFIX) + _QUOTED_SUFFIX
    return quoted
