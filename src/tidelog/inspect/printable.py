"""Text from a data directory in a form that harms no terminal and no page. Pure."""

from __future__ import annotations


def escaped(text: str) -> str:
    """Escape control characters, bidirectional controls, lone surrogates and all other characters without a shape.

    Line feeds stay. A foreign key or topic name then cannot control a terminal, or turn the text around it.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
