"""The option ``--schemas`` of the commands that make pages."""

from __future__ import annotations

import json
from pathlib import Path

from cli.runner import run
from log_maker import batch, mark_clean, write_segment


def test_inspect_decodes_with_the_schemas_of_a_folder(tmp_path: Path) -> None:
    root = tmp_path / "data"
    write_segment(root / "t-0", 0, [batch(0, [b"\0\0\0\0\x07\x54"], key=None)])
    mark_clean(root)
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / "7.avsc").write_text(
        json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]})
    )
    page = ["--page", "/logs/0/t-0/records", "--json"]
    found = json.loads(run("inspect", str(root), *page, "--schemas", str(folder)).stdout)
    assert found["sections"]["records"]["rows"][0]["value"] == {"x": 42}
    assert (
        json.loads(run("inspect", str(root), *page).stdout)["sections"]["records"]["rows"][0]["value"] == "\0\0\0\0\7T"
    )
    run("inspect", root, *page, "--schemas", tmp_path / "none", code=3)
    run("web", root, "--schemas", tmp_path / "none", "--bind", "127.0.0.1:0", code=3)
