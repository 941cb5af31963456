"""The click type of sizes and rates in bytes, such as ``50MB`` and ``1GiB``."""

from __future__ import annotations

import re

import click

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kKMGT]?i?B?)")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class ByteSize(click.ParamType[int]):
    """A number of bytes. The unit kB is 1,000 bytes and KiB 1,024; without a unit, the number counts bytes."""

    name = "size"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(value.strip())
        if match is None:
            self.fail(f"{value!r} is not a size, such as 1000000, 50MB or 1GiB", param, ctx)
        unit = match["unit"].lower().removesuffix("b")
        base = 1024 if unit.endswith("i") else 1000
        return int(float(match["number"]) * base ** _POWERS[unit.removesuffix("i")])


BYTE_SIZE = ByteSize()
