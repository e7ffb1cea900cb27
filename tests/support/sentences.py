"""The sentences that a module makes, read from its source: each with samples of its values."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path


def sentences(path: Path, samples: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Give the line of each text with a space, and the text with each sample in all its places.

    Docstrings and texts within a logging call's event are none: events have no spaces.
    """
    tree = ast.parse(path.read_text())
    skipped = {id(node) for node in _docstrings(tree)}
    skipped |= {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        texts = [_text(node, sample) for sample in samples]
        if " " in texts[0].strip():
            yield getattr(node, "lineno", 0), texts


def _docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr):
                yield first.value


def _text(node: ast.AST, sample: str) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else sample for part in node.values)
        return "".join(map(str, parts))
    return ""
