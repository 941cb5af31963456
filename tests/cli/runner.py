"""A runner of command lines in this process that returns their output."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from tidelog.cli.main import cli


def run(*arguments: object, code: int = 0) -> Result:
    """Run the command. It must end with ``code`` and print no stack trace."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert isinstance(result.exception, SystemExit | None), result.exc_info
    assert result.exit_code == code, f"exit code {result.exit_code}\n{result.output}"
    assert "Traceback" not in result.output
    return result


def rows(*arguments: object, code: int = 0) -> list[dict[str, Any]]:
    """Return the rows that a command prints with ``--json``."""
    loaded: list[dict[str, Any]] = json.loads(run(*arguments, "--json", code=code).stdout)
    return loaded
