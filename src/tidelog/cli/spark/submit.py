"""``tidelog spark`` as a file, which ``spark-submit`` needs: ``spark-submit submit.py count /mnt/disk1/kafka``.

A copy of this file works anywhere, since it only calls the installed package.
"""

from __future__ import annotations

import sys

from tidelog.cli.main import main

if __name__ == "__main__":
    main(["spark", *sys.argv[1:]])
