"""What is planted: mutmut's operators (libcst in, libcst out), and those of things left out.

mutmut's own runner is not used: docs/decisions/2026-11-25-mutation-testing.md has the numbers. Its
table is: wrong operators, numbers, constants, arguments, assignments. What people plant in reviews
is mostly something left out, so there are operators for that: a statement dropped, a condition that
always or never holds, one side of an `and`, the filter of a comprehension, min for max.

Not planted: anything in type annotations, asserts, decorators, imports and docstrings; words (the
text of messages is nothing that a rule rests on); what is logged; `strict=` of zip, and calls of
`_check`, which hold nothing but asserts; None for False, which only types tell apart; a union of
types that has a name.
"""

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import libcst as cst
from libcst.metadata import (
    CodeRange,
    MetadataWrapper,
    PositionProvider,
    WhitespaceInclusivePositionProvider,
)
from mutmut.mutation import mutators

LOGS: Final = frozenset({"log", "_log", "logging"})
Operator = Callable[[Any], Iterable[cst.CSTNode]]
NOT_USED: Final = frozenset(
    {
        mutators.operator_string,  # words
        mutators.operator_symmetric_string_methods_swap,
        mutators.operator_unsymmetrical_string_methods_swap,
    }
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module."""

    module: str
    file: str
    """From the root of the repository."""
    function: str
    """Qualified name; empty for what stands in the module itself, the class's for its body."""
    line: int
    lines: tuple[int, ...]
    """Of the statement that holds the change: a test that runs one of them reaches it."""
    operator: str
    diff: str
    """Lines taken away and put there, without their indentation: `- old` and `+ new`."""
    original: str
    """The whole module as it is; one object for all of its mutants."""
    change: tuple[int, str, int]
    """Where the mutated text begins to differ, what stands there, where the original goes on."""

    @property
    def text(self) -> str:
        """The whole module, mutated: made when asked for, since there are thousands."""
        first, new, last = self.change
        return self.original[:first] + new + self.original[last:]

    @property
    def key(self) -> tuple[str, str, str]:
        """Survives edits elsewhere in the file."""
        return self.module, self.function, self.diff

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


def mutants_of(
    module: str, file: str, text: str, *, functions: Collection[str] | None = None
) -> list[Mutant]:
    """Every mutant of a module, in the order of its lines; those of equal text once. `functions`:
    only these are mutated, since each mutant costs as much as its whole file is long."""
    wrapper = MetadataWrapper(cst.parse_module(text))
    planter = _Planter()
    wrapper.visit(planter)
    found: dict[str, Mutant] = {}
    for plant in sorted(planter.plants, key=lambda plant: plant.at.start.line):
        if functions is not None and plant.function not in functions:
            continue
        mutated = _replaced(wrapper.module, text, plant)
        if mutated != text and mutated not in found and _compiles(mutated):
            lines = tuple(range(plant.statement.start.line, plant.statement.end.line + 1))
            found[mutated] = Mutant(
                module, file, plant.function, plant.at.start.line, lines, plant.operator,
                short_diff(text, mutated), text, changed(text, mutated),
            )  # fmt: skip
    return list(found.values())


def short_diff(old: str, new: str) -> str:
    one, other = ([line.strip() for line in text.splitlines()] for text in (old, new))
    # Without what both begin and end with: whole files take difflib minutes in all.
    first = _common(one, other)
    one, other = one[first:], other[first:]
    last = _common(one[::-1], other[::-1])
    sides = (one[: len(one) - last], other[: len(other) - last])
    return "\n".join(
        f"{line[0]} {line[1:]}".rstrip()
        for line in difflib.unified_diff(*sides, n=0, lineterm="")
        if line[:1] in "+-" and not line.startswith(("+++", "---"))
    )


def changed(old: str, new: str) -> tuple[int, str, int]:
    """See `Mutant.change`."""
    most = min(len(old), len(new))
    first = next((at for at in range(most) if old[at] != new[at]), most)
    last = next((at for at in range(most - first) if old[-1 - at] != new[-1 - at]), most - first)
    return first, new[first : len(new) - last], len(old) - last


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Plant:
    old: cst.CSTNode
    new: cst.CSTNode
    at: CodeRange
    """Where a reader looks for it."""
    whole: CodeRange
    """What is replaced: the node with the white space that is its own."""
    statement: CodeRange
    function: str
    operator: str


def _replaced(module: cst.Module, text: str, plant: _Plant) -> str:
    """The text with the node's own replaced; libcst prints the whole module 100 times slower."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    start = starts[plant.whole.start.line - 1] + plant.whole.start.column
    end = starts[plant.whole.end.line - 1] + plant.whole.end.column
    if "".join(text[start:end].split()) == "".join(module.code_for_node(plant.old).split()):
        return text[:start] + module.code_for_node(plant.new) + text[end:]
    changed = module.deep_replace(plant.old, plant.new)
    assert isinstance(changed, cst.Module)
    return changed.code


class _Planter(cst.CSTVisitor):
    """Walks a module and notes every change that an operator has for a node."""

    METADATA_DEPENDENCIES = (PositionProvider, WhitespaceInclusivePositionProvider)

    def __init__(self) -> None:
        super().__init__()
        self.plants: list[_Plant] = []
        self._names: list[str] = []
        """Of the functions and classes around the node, the outermost first."""
        self._depth = 0
        """Functions around the node: names of inner ones are left out."""
        self._statements: list[CodeRange] = []
        """Simple statements around the node: one, or none."""

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _is_left_alone(node):
            return False
        if isinstance(node, cst.SimpleStatementLine):
            self._statements.append(self._at(node))
        if isinstance(node, cst.ClassDef | cst.FunctionDef):
            if not self._depth:
                self._names.append(node.name.value)
            self._depth += isinstance(node, cst.FunctionDef)
        for kind, operator in OPERATORS:
            if isinstance(node, kind):
                for new in operator(node):
                    self._plant(node, new, operator.__name__)
        if isinstance(node, cst.If | cst.While):
            for test in force_condition(node):
                self._plant(node.test, test, force_condition.__name__)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if _is_left_alone(original_node):
            return
        if isinstance(original_node, cst.SimpleStatementLine):
            self._statements.pop()
        if isinstance(original_node, cst.ClassDef | cst.FunctionDef):
            self._depth -= isinstance(original_node, cst.FunctionDef)
            if not self._depth:
                self._names.pop()

    def _plant(self, node: cst.CSTNode, new: cst.CSTNode, operator: str) -> None:
        at = self._at(node)
        whole = self.get_metadata(WhitespaceInclusivePositionProvider, node)
        if isinstance(node, cst.SimpleStatementLine):
            whole = at
        assert isinstance(whole, CodeRange)
        statement = self._statements[-1] if self._statements else at
        name = ".".join(self._names)
        operator = operator.removeprefix("operator_")
        self.plants.append(_Plant(node, new, at, whole, statement, name, operator))

    def _at(self, node: cst.CSTNode) -> CodeRange:
        found = self.get_metadata(PositionProvider, node)
        assert isinstance(found, CodeRange)
        return found


def _is_left_alone(node: cst.CSTNode) -> bool:
    match node:
        case cst.Annotation() | cst.Assert() | cst.Decorator() | cst.Import() | cst.ImportFrom():
            return True
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value="__all__"))]):
            return True
        case cst.Assign(value=value) if _is_union(value):
            return True
        case cst.Call(func=cst.Name(value="len" | "isinstance" | "cast" | "TypeVar" | "ParamSpec")):
            return True
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="_check")), args=[]):
            return True
        case cst.Call(func=cst.Attribute(value=cst.Name(value=name))):
            return name in LOGS
        case cst.Arg(keyword=cst.Name(value="strict")):
            return True
        case cst.TypeAlias():
            return True
    return False


def _is_union(node: cst.BaseExpression) -> bool:
    """`Read | Written | None`: a name for annotations."""
    match node:
        case cst.BinaryOperation(operator=cst.BitOr(), left=left, right=right):
            return all(_is_union(side) or _is_type(side) for side in (left, right))
    return False


def _is_type(node: cst.BaseExpression) -> bool:
    """By its name: `Read`, `None`; FLAG is a number."""
    named = node.value if isinstance(node, cst.Subscript) else node
    return isinstance(named, cst.Name) and named.value[0].isupper() and not named.value.isupper()


# Operators of what is left out


def drop_statement(node: cst.SimpleStatementLine) -> Iterator[cst.CSTNode]:
    """A call, a `raise`, a `del`, an `x += 1`: not done."""
    match node.body:
        case [cst.Expr(value=cst.Call() | cst.Await() as value)]:
            called = value.expression if isinstance(value, cst.Await) else value
            if not _is_left_alone(called):
                yield cst.Pass()
        case [cst.Raise() | cst.Del() | cst.AugAssign()]:
            yield cst.Pass()


def force_condition(node: cst.If | cst.While) -> Iterator[cst.CSTNode]:
    """What replaces its test: the branch is never taken; that of an `if` also always."""
    lpar = [cst.LeftParen()] if node.test.lpar else []
    rpar = [cst.RightParen()] if node.test.lpar else []
    for word in ("False", "True") if isinstance(node, cst.If) else ("False",):
        yield cst.Name(word, lpar=lpar, rpar=rpar)


def drop_operand(node: cst.BooleanOperation) -> Iterator[cst.CSTNode]:
    """One side of an `and` or `or` alone."""
    around = {"lpar": [*node.lpar, cst.LeftParen()], "rpar": [cst.RightParen(), *node.rpar]}
    yield node.left.with_changes(**around)
    yield node.right.with_changes(**around)


def drop_filter(node: cst.CompFor) -> Iterator[cst.CSTNode]:
    """A comprehension takes all."""
    for at in range(len(node.ifs)):
        yield node.with_changes(ifs=[*node.ifs[:at], *node.ifs[at + 1 :]])


def swap_extreme(node: cst.Call) -> Iterator[cst.CSTNode]:
    """min for max, any for all, and back."""
    swaps = {"min": "max", "max": "min", "any": "all", "all": "any"}
    if isinstance(node.func, cst.Name) and node.func.value in swaps:
        yield node.with_changes(func=cst.Name(swaps[node.func.value]))


def drop_argument(node: cst.Call) -> Iterator[cst.CSTNode]:
    """mutmut's: an argument becomes None, or goes; not if it is words, or as false as None."""
    for at, arg in enumerate(node.args):
        if arg.star or _is_words(arg.value) or (arg.keyword and arg.keyword.value == "strict"):
            continue
        if not _is_falsy(arg.value):
            none = arg.with_changes(value=cst.Name("None"))
            yield node.with_changes(args=[*node.args[:at], none, *node.args[at + 1 :]])
        if len(node.args) > 1:
            yield node.with_changes(args=[*node.args[:at], *node.args[at + 1 :]])


def _is_words(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.BaseString)


def _is_falsy(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value in ("None", "False")


def assign_none(node: cst.Assign | cst.AnnAssign) -> Iterator[cst.CSTNode]:
    """mutmut's, but for words, and for what is as false as None."""
    value = node.value
    if value is not None and not _is_falsy(value) and not _is_words(value):
        yield from mutators.operator_assignment(node)


_REPLACED: Final[dict[object, Operator]] = {
    mutators.operator_arg_removal: drop_argument,
    mutators.operator_assignment: assign_none,
}
_OURS: Final[Sequence[tuple[type, Operator]]] = (
    (cst.SimpleStatementLine, drop_statement),
    (cst.BooleanOperation, drop_operand),
    (cst.CompFor, drop_filter),
    (cst.Call, swap_extreme),
)
OPERATORS: Final[Sequence[tuple[type, Operator]]] = (
    *(
        (kind, _REPLACED.get(operator, operator))
        for kind, operator in mutators.mutation_operators
        if operator not in NOT_USED
    ),
    *_OURS,
)


# Modules


SOURCES: Final = ("operator/src", "bookie/src")
GENERATED: Final = ("_pb2", "_pb2_grpc")


def modules_of(name: str, *, root: Path) -> dict[str, str]:
    """Dotted names and files of a module or of all modules of a package; none when it is not there.

    A name that ends with `*` stands for all that begin so."""
    found = {}
    for source in SOURCES:
        for path in sorted((root / source).rglob("*.py")):
            parts = path.relative_to(root / source).with_suffix("").parts
            dotted = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            is_wanted = (
                dotted.startswith(name[:-1])
                if name.endswith("*")
                else dotted == name or dotted.startswith(f"{name}.")
            )
            if is_wanted and not path.stem.endswith(GENERATED):
                found[dotted] = str(path.relative_to(root))
    return found


def package_of(module: str) -> str:
    """`bookie.protocol` of `bookie.protocol.quorum`."""
    return ".".join(module.split(".")[:2])
