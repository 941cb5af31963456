"""``python -m tidelog``: the ``tidelog`` command by the interpreter's name, where no script is on the path."""

from __future__ import annotations

from tidelog.cli.main import main

if __name__ == "__main__":
    main()
