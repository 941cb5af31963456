"""Find the places where a source file can be broken: one small wrong edit each, a mutation.

========================  ==========================================================================================
operator                  edit
========================  ==========================================================================================
``boundary``              ``<`` becomes ``<=``, and so on
``comparison``            ``<`` becomes ``>``, ``==`` becomes ``!=``, ``in`` becomes ``not in``, and so on
``arithmetic``            ``+`` becomes ``-``, ``*`` becomes ``//``, ``&`` becomes ``|``, and so on
``boolean``               ``and`` becomes ``or``, and the reverse
``constant``              a number grows by one; ``True`` becomes ``False``, and the reverse
``return value``          ``return x`` becomes ``return None``
``removed statement``     ``pass`` replaces a call, an assignment to an attribute or element, a ``raise``, ``continue``,
                          ``break`` or ``del``
``negated condition``     ``if x`` becomes ``if not (x)``; also in conditional expressions and comprehensions
``swapped argument``      the first two positional arguments of a call change places
========================  ==========================================================================================

Annotations, docstrings, logging calls, the text of errors, assertions, decorators, ``__repr__`` and ``__str__`` stay as
they are: no test has to notice them. ``find_mutations`` is a pure function of a file's text.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

COMPARISONS: dict[type[ast.cmpop], tuple[tuple[str, str], ...]] = {
    ast.Lt: (("boundary", "<="), ("comparison", ">")),
    ast.LtE: (("boundary", "<"), ("comparison", ">=")),
    ast.Gt: (("boundary", ">="), ("comparison", "<")),
    ast.GtE: (("boundary", ">"), ("comparison", "<=")),
    ast.Eq: (("comparison", "!="),),
    ast.NotEq: (("comparison", "=="),),
    ast.Is: (("comparison", "is not"),),
    ast.IsNot: (("comparison", "is"),),
    ast.In: (("comparison", "not in"),),
    ast.NotIn: (("comparison", "in"),),
}
SYMBOLS: dict[type[ast.cmpop] | type[ast.operator], str] = {
    ast.Lt: r"<",
    ast.LtE: r"<=",
    ast.Gt: r">",
    ast.GtE: r">=",
    ast.Eq: r"==",
    ast.NotEq: r"!=",
    ast.Is: r"\bis\b",
    ast.IsNot: r"\bis\s+not\b",
    ast.In: r"\bin\b",
    ast.NotIn: r"\bnot\s+in\b",
    ast.Add: r"\+",
    ast.Sub: r"-",
    ast.Mult: r"\*",
    ast.FloorDiv: r"//",
    ast.Div: r"/",
    ast.Mod: r"%",
    ast.LShift: r"<<",
    ast.RShift: r">>",
    ast.BitAnd: r"&",
    ast.BitOr: r"\|",
    ast.BitXor: r"\^",
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.FloorDiv: "*",
    ast.Div: "*",
    ast.Mod: "//",
    ast.LShift: ">>",
    ast.RShift: "<<",
    ast.BitAnd: "|",
    ast.BitOr: "&",
    ast.BitXor: "&",
}
SINGLE = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""A condition with one of these alone is negated by ``comparison`` already."""
LOGGERS = re.compile(r"(?:^|_)log(?:ger)?$")
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
ORDERED_CALLS = {"isinstance", "issubclass", "getattr", "setattr", "min", "max"}
"""Calls whose arguments are not swapped: it fails at once, or it makes no difference."""
TEXT_FUNCTIONS = {"__repr__", "__str__"}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A wrong edit of a file. ``before`` and ``after`` are its lines without and with it, as one line of text."""

    file: str
    function: str
    """The qualified name of the function or class around the edit, "" at the top of a module."""
    operator: str
    before: str
    after: str
    occurrence: int
    """The number of mutations of the function that look the same and come earlier."""
    line: int
    start: int
    end: int
    """The bytes of the file that ``text`` replaces."""
    text: str
    run_lines: range
    """The lines of which a test must execute one to notice the edit; empty if import executes the place."""
    words: tuple[str, ...] = ()
    """The names that the statement binds, if import executes the place."""

    @property
    def key(self) -> str:
        """The mutation's identity, which does not depend on line numbers."""
        return "|".join([self.file, self.function, self.operator, self.before, self.after, str(self.occurrence)])

    def apply_to(self, source: str) -> str:
        """Return the text of the file with the edit."""
        data = source.encode()
        return (data[: self.start] + self.text.encode() + data[self.end :]).decode()

    def is_program(self, source: str) -> bool:
        """Return whether the file with the edit can be compiled."""
        try:
            compile(self.apply_to(source), self.file, "exec")
        except SyntaxError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class _Place:
    """The surroundings of a node."""

    function: str = ""
    header: range = range(0)
    """The lines of the innermost statement."""
    words: tuple[str, ...] = ()
    at_run: bool = False
    """True inside of a function's body."""


@dataclass(frozen=True, slots=True)
class _Edit:
    operator: str
    node: ast.AST
    start: int
    end: int
    text: str
    place: _Place


def find_mutations(file: str, source: str) -> list[Mutation]:
    """Return all mutations of a file, in the order of its text."""
    finder = _Finder(source)
    edits = sorted(finder.module(), key=lambda edit: (edit.start, edit.end, edit.text))
    seen: Counter[str] = Counter()
    found = []
    for edit in edits:
        mutation = _mutation(file, finder, edit)
        found.append(replace(mutation, occurrence=seen[mutation.key]))
        seen[mutation.key] += 1
    return found


def _mutation(file: str, finder: _Finder, edit: _Edit) -> Mutation:
    first, last = finder.line_of(edit.start), finder.line_of(edit.end)
    begin, stop = finder.starts[first - 1], finder.starts[last]
    before = finder.data[begin:stop]
    after = finder.data[begin : edit.start] + edit.text.encode() + finder.data[edit.end : stop]
    place = edit.place
    lines = range(first, last + 1) if place.at_run else range(0)
    return Mutation(
        file=file,
        function=place.function,
        operator=edit.operator,
        before=" ".join(before.decode().split()),
        after=" ".join(after.decode().split()),
        occurrence=0,
        line=first,
        start=edit.start,
        end=edit.end,
        text=edit.text,
        run_lines=_union(lines, place.header) if place.at_run else range(0),
        words=() if place.at_run else place.words,
    )


def _union(lines: range, header: range) -> range:
    """Return the lines from the begin of a statement to the end of an edit: only some of them are recorded."""
    return range(min(lines.start, header.start), max(lines.stop, header.start + 1))


class _Finder:
    """The walk over one file."""

    def __init__(self, source: str) -> None:
        self.data = source.encode()
        self.starts = [0]
        for line in self.data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self._tree = ast.parse(source)

    def module(self) -> Iterator[_Edit]:
        yield from self._body(self._tree.body, _Place())

    def line_of(self, position: int) -> int:
        return bisect_right(self.starts, position)

    def _body(self, body: Sequence[ast.stmt], place: _Place) -> Iterator[_Edit]:
        for statement in body:
            yield from self._statement(statement, place)

    def _statement(self, node: ast.stmt, place: _Place) -> Iterator[_Edit]:
        if isinstance(node, FunctionNode):
            yield from self._function(node, place)
            return
        if isinstance(node, ast.ClassDef):
            name = f"{place.function}.{node.name}".lstrip(".")
            yield from self._body(node.body, _Place(name, words=(node.name,)))
            return
        if _is_no_target(node):
            return
        place = _Place(
            place.function, range(node.lineno, _header_end(node)), place.words + bound_names(node), place.at_run
        )
        yield from self._removal(node, place)
        for field, value in ast.iter_fields(node):
            if field == "annotation" or (isinstance(node, ast.Raise) and field == "exc"):
                continue
            yield from self._field(value, place)
        if isinstance(node, ast.Return) and node.value is not None and not _is_false(node.value):
            yield self._replaced("return value", node.value, "None", place)
        if isinstance(node, ast.If):
            yield from self._negation(node.test, place)
        if isinstance(node, ast.AugAssign):
            yield from self._operator(node.op, node.target, node.value, place)

    def _function(self, node: FunctionNode, place: _Place) -> Iterator[_Edit]:
        if node.name in TEXT_FUNCTIONS:
            return
        name = f"{place.function}.{node.name}".lstrip(".")
        first = node.body[1 if ast.get_docstring(node) is not None and len(node.body) > 1 else 0]
        for default in [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]:
            header = range(first.lineno, first.lineno + 1)
            yield from self._expression(default, _Place(name, header, at_run=True))
        yield from self._body(node.body, _Place(name, at_run=True))

    def _field(self, value: object, place: _Place) -> Iterator[_Edit]:
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.stmt):
                yield from self._statement(child, place)
            elif isinstance(child, ast.expr):
                yield from self._expression(child, place)
            elif isinstance(child, ast.AST):
                for _, below in ast.iter_fields(child):
                    yield from self._field(below, place)

    def _expression(self, node: ast.expr, place: _Place) -> Iterator[_Edit]:
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                text = str(not value) if isinstance(value, bool) else repr(value + 1)
                yield self._replaced("constant", node, text, place)
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                for op, one, other in zip(ops, [left, *comparators], comparators, strict=False):
                    for operator, text in COMPARISONS[type(op)]:
                        yield from self._between(operator, SYMBOLS[type(op)], one, other, text, place)
            case ast.BinOp(left=left, op=op, right=right):
                yield from self._operator(op, left, right, place)
            case ast.BoolOp(op=op, values=values):
                symbol, text = (r"\band\b", "or") if isinstance(op, ast.And) else (r"\bor\b", "and")
                for one, other in pairwise(values):
                    yield from self._between("boolean", symbol, one, other, text, place)
            case ast.IfExp(test=test):
                yield from self._negation(test, place)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                for condition in (condition for part in node.generators for condition in part.ifs):
                    yield from self._negation(condition, place)
            case ast.Call():
                if _is_logging(node) or _name(node.func) == "cast":
                    return
                yield from self._swapped(node, place)
        for field, value in ast.iter_fields(node):
            if not (isinstance(node, ast.Call) and field == "func" and isinstance(value, ast.Name)):
                yield from self._field(value, place)

    def _operator(self, op: ast.operator, left: ast.expr, right: ast.expr, place: _Place) -> Iterator[_Edit]:
        if type(op) in ARITHMETIC and not any(_is_text(side) or _is_type(side) for side in (left, right)):
            yield from self._between("arithmetic", SYMBOLS[type(op)], left, right, ARITHMETIC[type(op)], place)

    def _removal(self, node: ast.stmt, place: _Place) -> Iterator[_Edit]:
        match node:
            case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
                removed = True
            case ast.Assign(targets=targets):
                removed = all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
            case ast.AnnAssign(target=target, value=value):
                removed = isinstance(target, ast.Attribute) and value is not None
            case ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
                removed = True
            case _:
                removed = False
        if removed:
            yield self._replaced("removed statement", node, "pass", place)

    def _negation(self, test: ast.expr, place: _Place) -> Iterator[_Edit]:
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], SINGLE):
            return
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yield self._replaced("negated condition", test, f"({self._text(test.operand)})", place)
        else:
            yield self._replaced("negated condition", test, f"(not ({self._text(test)}))", place)

    def _swapped(self, node: ast.Call, place: _Place) -> Iterator[_Edit]:
        if len(node.args) < 2 or _name(node.func) in ORDERED_CALLS:
            return
        first, second = node.args[:2]
        one, other = self._text(first), self._text(second)
        if one == other or any(isinstance(argument, ast.Starred | ast.GeneratorExp) for argument in (first, second)):
            return
        start, end = self._span(first)[0], self._span(second)[1]
        gap = self.data[self._span(first)[1] : self._span(second)[0]].decode()
        yield _Edit("swapped argument", node, start, end, f"{other}{gap}{one}", place)

    def _between(
        self, operator: str, symbol: str, one: ast.expr, other: ast.expr, text: str, place: _Place
    ) -> Iterator[_Edit]:
        """Replace the symbol between two expressions."""
        begin = self._span(one)[1]
        found = re.search(symbol, self.data[begin : self._span(other)[0]].decode())
        if found:
            yield _Edit(operator, one, begin + found.start(), begin + found.end(), text, place)

    def _replaced(self, operator: str, node: ast.expr | ast.stmt, text: str, place: _Place) -> _Edit:
        return _Edit(operator, node, *self._span(node), text, place)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[end_line - 1] + end_column

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self.data[start:end].decode()


def _header_end(node: ast.stmt) -> int:
    """Return the line after a statement, or after the head of a compound one."""
    body = getattr(node, "body", None)
    if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
        return max(body[0].lineno, node.lineno + 1)
    return (node.end_lineno or node.lineno) + 1


def bound_names(node: ast.stmt) -> tuple[str, ...]:
    """Return the names that an assignment binds."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return tuple(child.id for target in targets if target for child in ast.walk(target) if isinstance(child, ast.Name))


def _is_no_target(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.Global() | ast.Nonlocal() | ast.Pass():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call() as call):
            return _is_logging(call)
        case ast.If(test=test):
            return _name(test) == "TYPE_CHECKING"
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in ("__all__", "__slots__")
    return False


def _is_logging(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr in LEVELS
        and LOGGERS.search(_name(function.value)) is not None
    )


def _name(node: ast.expr) -> str:
    """Return the last name of a dotted expression, or ""."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_false(node: ast.expr) -> bool:
    """Return whether an expression is a constant that callers may not tell from ``None``."""
    return isinstance(node, ast.Constant) and not node.value


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _is_type(node: ast.expr) -> bool:
    """Return whether an operand of ``|`` is a type, as in an alias of a union."""
    return (
        _is_none(node) or (_name(node)[:1].isupper() and not _name(node).isupper()) or isinstance(node, ast.Subscript)
    )
