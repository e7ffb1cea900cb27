"""Finds code that depends on the kind of database, by reading the syntax trees."""

import ast
import re
from collections.abc import Iterator

from tests.support.architecture import CodeBase, Module

#: Names of databases, supported or not.
KINDS = re.compile(r"(mysql|mariadb|sqlite|postgres|oracle|mssql)", re.IGNORECASE)
#: Attributes that tell the kind of a connected database or of a URL.
TELLING = {"is_mariadb", "is_sqlite", "get_backend_name", "drivername", "get_dialect"}
_LIBRARIES = ("sqlalchemy.dialects", "sqlite3", "pymysql", "psycopg")


def dialect_branches(code: CodeBase, home: str) -> list[str]:
    """Return each place outside a package that distinguishes kinds of databases."""
    return [
        f"{module.name}:{line}: {what}"
        for module in code.values()
        if not f"{module.name}.".startswith(f"{home}.")
        for line, what in sorted({*_imports(module), *_branches(module.tree)})
    ]


def _imports(module: Module) -> Iterator[tuple[int, str]]:
    for found in module.imports:
        name = f"{found.module}.{found.name}"
        if any(f"{name}.".startswith(f"{library}.") for library in _LIBRARIES):
            yield found.line, f"imports {found.module}"


def _branches(tree: ast.Module) -> Iterator[tuple[int, str]]:
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    handed_on = {id(inner) for node in ast.walk(tree) for inner in _arguments_of_named(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in prose and KINDS.match(node.value):
                yield node.lineno, f"says {node.value.split()[0]!r}"
        elif isinstance(node, ast.Attribute) and id(node) not in handed_on and _tells(node):
            yield node.lineno, f"asks for {ast.unparse(node)}"


def _arguments_of_named(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is inside a call of `named(…)`, which selects the dialect."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "named":
        for argument in node.args:
            yield from ast.walk(argument)


def _tells(node: ast.Attribute) -> bool:
    of_dialect = isinstance(node.value, ast.Attribute) and node.value.attr == "dialect"
    return node.attr in TELLING or (node.attr == "name" and of_dialect)
