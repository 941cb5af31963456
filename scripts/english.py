"""Check the project's English: docstrings, comments, messages and pages follow the rules of docs/glossary.md.

``python scripts/english.py [--new] FILE…`` prints one line for each finding, and ends with 1 if there is one. With
``--new`` it skips the files that ``tests/project/english_exceptions.txt`` lists.
``tests/project/test_english.py`` runs the same check over the whole project.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORDS = tomllib.loads((ROOT / "scripts" / "english.toml").read_text())
VERBS = frozenset(WORDS["verbs"].split())
"""Infinitives."""
IRREGULAR = frozenset(WORDS["irregular"].split())
"""Forms of verbs that ``base_form`` does not know."""
ALSO_NOUNS = frozenset(WORDS["also_nouns"].split())
VAGUE_OPENINGS = frozenset(WORDS["vague_openings"].split())
"""A noun phrase that names the thing begins with none of these."""
VAGUE_COMMENT_OPENINGS = frozenset(WORDS["vague_comment_openings"].split())
MAX_WORDS = 30
SUFFIXES = (".py", ".pyx", ".pxd", ".pyi", ".h", ".c", ".java", ".md")
EXCEPTIONS = ROOT / "tests" / "project" / "english_exceptions.txt"


def _compiled(table: str) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(rf"\b{phrase}", re.IGNORECASE), better) for phrase, better in WORDS[table].items()]


PHRASES = _compiled("phrases")
CODE_PHRASES = _compiled("code_phrases")
"""These hold in code. A page for people may ask "what does it cost?"."""

_QUOTES = re.compile("|".join(map(re.escape, WORDS["quotes"])))

LABELLED = re.compile(
    r"\b(?:Sources?|Source of the \w+|Thread rules?|Examples?|Errors?|Units?|Shapes?): [^.]*(?:\.|$)", re.MULTILINE
)
"""A field such as ``Source: KIP-98.`` needs no verb."""
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*|\bCODE\b")
_LITERAL = re.compile(r"``.+?``|`[^`\n]+`", re.DOTALL)
_STRING_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?"""'
    r"|'''(?:\\.|[^\\])*?'''"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])*'"
    r"|(?P<comment>#[^\n]*)",
    re.DOTALL,
)
"""This finds comments in a tenth of the time of ``tokenize``, which CPython 3.11 has in Python."""
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[A-Z`\"'(*\[])")
_ABBREVIATIONS = re.compile(r"\b(?:e\.g|i\.e|etc|cf|vs|resp|No)\.")


@dataclass(frozen=True, slots=True)
class Text:
    line: int
    kind: str
    """One of module, class, function, property, test, attribute, comment, message, page."""
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    file: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.problem}"


def plain(text: str) -> str:
    """Return ``text`` without code, tables and literal blocks, each paragraph on a line of its own."""
    text = _LITERAL.sub("CODE", _ABBREVIATIONS.sub("eg", text))
    paragraphs: list[str] = []
    literal = in_table = False
    for paragraph in re.split(r"\n\s*\n", text):
        if literal and paragraph.startswith((" ", "\t")):
            continue
        literal = paragraph.rstrip().endswith("::")
        kept: list[str] = []
        for line in paragraph.splitlines():
            words = line.strip()
            if re.fullmatch(r"[=+|-][=+| -]*", words):
                in_table = words.startswith("=")
                kept.append("\n")
            elif words.startswith(("|", ">>>", "...")) or in_table:
                kept.append("\n")
            elif re.match(r"[-*] |\d+\. ", words):
                kept.append("\n" + words)
            else:
                kept.append(words)
        in_table = False
        paragraphs.append(" ".join(kept))
    return "\n".join(paragraphs)


def sentences(text: str) -> Iterator[str]:
    for paragraph in LABELLED.sub("", plain(text)).splitlines():
        for sentence in _SENTENCE_END.split(paragraph):
            if sentence.strip():
                yield sentence.strip()


def has_verb(sentence: str) -> bool:
    """Return True if a word of the sentence may be its verb. A noun's form counts only as an imperative."""
    words = [found.lower() for found in _WORD.findall(sentence)]
    return any(
        word in IRREGULAR
        or ((base := base_form(word)) in VERBS and (base not in ALSO_NOUNS or (number == 0 and word == base)))
        for number, word in enumerate(words)
    )


def base_form(word: str) -> str:
    """Return the infinitive of a regular verb's form if it is known, else the word itself."""
    for ending, replacement in (("", ""), ("s", ""), ("es", ""), ("ies", "y"), ("ed", ""), ("d", ""), ("ied", "y")):
        if word.endswith(ending):
            base = word[: len(word) - len(ending)] + replacement
            if base in VERBS:
                return base
            if ending == "ed" and base[-1:] == base[-2:-1] and base[:-1] in VERBS:
                return base[:-1]
    return word


def problems(text: Text) -> Iterator[str]:
    first_word = re.match(r"\W*(`{0,2})([A-Za-z'-]+)", text.text)
    opening = first_word[2].lower() if first_word and not first_word[1] else ""
    if text.kind == "function" and (opening not in VERBS):
        yield f"begins with {first_word[2] if first_word else 'no word'!r}, not with a verb in the imperative"
    if text.kind in ("module", "class", "property", "attribute", "test") and opening in VAGUE_OPENINGS:
        yield f"begins with {opening.capitalize()!r}: begin with the noun"
    if text.kind == "comment" and opening in VAGUE_COMMENT_OPENINGS:
        yield f"begins with {opening.capitalize()!r}: write a sentence"
    listed = list(sentences(text.text))
    for number, sentence in enumerate(listed):
        words = _WORD.findall(sentence)
        longest = max(len(_WORD.findall(part)) for part in sentence.split(": "))
        if longest > MAX_WORDS and text.kind != "message":
            yield f"{longest} words in a sentence: {sentence[:60]}…"
        must_have_verb = text.kind in ("module", "class", "function", "property", "attribute", "test") and (
            (number > 0 or text.kind == "test") and not re.match(r"[-*] |\d+\. ", sentence)
        )
        if must_have_verb and len(words) > 3 and not has_verb(sentence):
            yield f"no verb in: {sentence[:70]}"
    flat = _QUOTES.sub("", " ".join(listed))
    for phrase, better in PHRASES if text.kind in ("page", "message") else PHRASES + CODE_PHRASES:
        for found in phrase.finditer(flat):
            yield f"{found[0]!r}: {better}"


def python_texts(source: str, *, in_package: bool) -> Iterator[Text]:
    docstrings: set[int] = set()
    strings: list[tuple[ast.Constant, str]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant):
            if in_package and isinstance(node.value, str) and len(node.value.split()) > 2:
                strings.append((node, node.value))
            continue
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for index, statement in enumerate(body):
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                continue
            if not isinstance(statement.value.value, str):
                continue
            docstrings.add(id(statement.value))
            yield Text(statement.lineno, docstring_kind(node, index, in_package=in_package), statement.value.value)
    for string, text in strings:
        if id(string) not in docstrings:
            yield Text(string.lineno, "message", text)
    yield from comments(source)


def docstring_kind(node: ast.AST, index: int, *, in_package: bool) -> str:
    """Return the kind of text. Outside the package a function may be a test, whose docstring is a full sentence."""
    if index > 0:
        return "attribute"
    if isinstance(node, ast.Module):
        return "module"
    if isinstance(node, ast.ClassDef):
        return "class"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if node.name == "__init__" or any("property" in ast.unparse(decorator) for decorator in node.decorator_list):
            return "property"
        return "function" if in_package else "test"
    return "attribute"


def comments(source: str) -> Iterator[Text]:
    """Yield each run of comment lines as one text."""
    run: list[str] = []
    start = last = line = position = 0
    for token in _STRING_OR_COMMENT.finditer(source):
        if token["comment"] is None or re.match(r"#\s*(?:!|type:|noqa|fmt:|pragma|isort)", token[0]):
            continue
        line += source.count("\n", position, token.start())
        position = token.start()
        if run and line != last + 1:
            yield Text(start + 1, "comment", "\n".join(run))
            run = []
        if not run:
            start = line
        run.append(token[0].lstrip("# "))
        last = line
    if run:
        yield Text(start + 1, "comment", "\n".join(run))


def native_texts(source: str) -> Iterator[Text]:
    """Yield the docstrings and comments of Cython and C, whose grammar the standard library does not know."""
    pattern = re.compile(
        r'"""(?P<doc>.*?)"""|/\*(?P<block>.*?)\*/'
        r"|(?P<lines>(?:^[ \t]*(?:#|//)[^\n]*\n?)+)|(?<=\s)(?:#|//) (?P<end>[^\n]*)",
        re.DOTALL | re.MULTILINE,
    )
    for found in pattern.finditer(source):
        line = source.count("\n", 0, found.start()) + 1
        if found["lines"] and re.match(
            r"\s*#\s*(?:include|define|if|endif|else|pragma|undef|cython:|distutils)", found[0]
        ):
            continue
        words = found["doc"] or found["block"] or found["lines"] or found["end"] or ""
        yield Text(line, "comment", re.sub(r"^\s*(?:\*|#|//) ?", "", words, flags=re.MULTILINE))


def page_texts(source: str) -> Iterator[Text]:
    """Yield the paragraphs of a Markdown page, without code blocks, generated parts, comments, headings and tables."""
    source = re.sub(r"^```.*?^```", lambda found: "\n" * found[0].count("\n"), source, flags=re.DOTALL | re.MULTILINE)
    source = re.sub(r"<!-- [^>]*written by `make map` -->.*?<!-- end of [^>]*-->", "", source, flags=re.DOTALL)
    source = re.sub(r"<!--.*?-->", "", source, flags=re.DOTALL)
    source = re.sub(r"^#+ .*$", "", source, flags=re.MULTILINE)
    source = re.sub(r"\]\([^)]*\)", "]", source)
    line = 1
    for paragraph in re.split(r"(\n[ \t]*\n)", source):
        if paragraph.strip() and not paragraph.startswith("    "):
            yield Text(line, "page", paragraph)
        line += paragraph.count("\n")


def findings(path: Path) -> list[Finding]:
    source = (ROOT / path).read_text()
    if path.suffix == ".py":
        texts: Iterable[Text] = python_texts(source, in_package=path.parts[0] == "src")
    elif path.suffix == ".md":
        texts = page_texts(source)
    else:
        texts = native_texts(source)
    return sorted(
        (Finding(str(path), text.line, problem) for text in texts for problem in problems(text)),
        key=lambda finding: finding.line,
    )


def is_checked(path: Path) -> bool:
    """Return True for a path below ``ROOT`` whose English is checked. The glossary must name the words to avoid."""
    return path.suffix in SUFFIXES and path not in (Path("scripts/english.py"), Path("docs/glossary.md"))


def main(arguments: list[str]) -> int:
    skipped = {Path(name) for name in EXCEPTIONS.read_text().split()} if "--new" in arguments else set()
    named = [Path(argument).resolve().relative_to(ROOT) for argument in arguments if argument != "--new"]
    found = [finding for path in named if is_checked(path) and path not in skipped for finding in findings(path)]
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
