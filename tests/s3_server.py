"""An S3 service on this machine, and uploads of directories to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import fsspec
from moto.server import ThreadedMotoServer

BUCKET = "backups"
_KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Run an empty service and yield the environment variables of its clients.

    fsspec keeps a client for as long as the process lives, with the address that the variables had before.
    """
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        address = f"http://{host}:{port}"
        urlopen(Request(f"{address}/moto-api/reset", method="POST")).close()
        yield {"AWS_ENDPOINT_URL": address, **_KEYS}
    finally:
        server.stop()


def put(directory: Path, name: str, environment: Mapping[str, str]) -> str:
    """Upload every file of ``directory`` below ``name`` and return the address."""
    address = environment["AWS_ENDPOINT_URL"]
    keys = (environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
    store = fsspec.filesystem("s3", endpoint_url=address, key=keys[0], secret=keys[1])
    store.mkdir(BUCKET)
    store.put(f"{directory}/", f"{BUCKET}/{name}/", recursive=True)
    return f"s3://{BUCKET}/{name}"
