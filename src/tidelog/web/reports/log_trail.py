"""The links from the cluster down to a log, which every page below a log begins with."""

from __future__ import annotations

from tidelog.web import urls
from tidelog.web.page import Link
from tidelog.web.request import PageRequest


def log_trail(request: PageRequest) -> list[Link]:
    """Return cluster, topic, log directory and log. Raise NotFoundError."""
    log_dir, name = request.log_dir, request.log_name
    topic = request.partition.topic
    return [
        Link("Cluster", urls.CLUSTER),
        Link(topic, urls.topic_url(topic)),
        Link(str(log_dir.path), urls.log_dir_url(log_dir.key)),
        Link(name, urls.log_url(log_dir.key, name)),
    ]
