"""``python -m tidelog`` runs the ``tidelog`` command where its script is not on the path."""

from __future__ import annotations

from tidelog.cli.main import main

if __name__ == "__main__":
    main()
