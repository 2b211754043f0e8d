"""Lines of code: those that hold a token which is no comment and no docstring.

What explains the code must never be what a limit makes somebody cut.
"""

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = (ROOT / "operator/src", ROOT / "bookie/src")
GENERATED: Final = ("_pb2", "_pb2_grpc")
_NO_CODE: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)


def modules() -> Iterator[Path]:
    """Every module of the product that people wrote, the test kit included."""
    for source in SOURCES:
        paths = sorted(source.rglob("*.py"))
        yield from (path for path in paths if not path.stem.endswith(GENERATED))


def code_lines(text: str) -> set[int]:
    """Numbers of the lines of code of a module."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - _explaining(ast.parse(text))


def _explaining(tree: ast.AST) -> set[int]:
    """Lines of docstrings, those below a field included: each is a statement of its own."""
    return {
        number
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
