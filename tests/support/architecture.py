"""Reads the packages' syntax trees and finds every violation of the layout rules.

A rule is a function of the code base that returns a line for each violation. Nothing is imported:
all imports in the source count, including those inside functions, because they hide cycles too.
The rules name modules as folders do: `warren.sql.runs` is `sql.runs`, of the package `sql`.
"""

import ast
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """An import: the module and, for `from … import`, the imported name."""

    module: str
    name: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One source file under its dotted name."""

    name: str
    tree: ast.Module
    imports: tuple[Import, ...]

    @property
    def package(self) -> str:
        """The top-level package."""
        return top_of(self.name)


#: The packages that lie beside `warren` in the repository and are imported as parts of it.
INNER = frozenset({"admin_web", "broker", "executor", "resources", "scheduler", "sql"})

#: Functions and classes that import the module that their first argument names.
_IMPORT_BY_TEXT = {"Flask", "__import__", "files", "import_module"}

#: All modules by their dotted names; an `__init__.py` has the package's name.
CodeBase = Mapping[str, Module]


def top_of(name: str) -> str:
    """Return the first part of a dotted name."""
    return name.partition(".")[0]


def place_of(name: str) -> str:
    """Return where a module lies: `sql.runs` for `warren.sql.runs`, others unchanged."""
    top, _, rest = name.partition(".")
    return rest if top == "warren" and top_of(rest) in INNER else name


def bare_imports(name: str, tree: ast.Module) -> list[str]:
    """Return the imports of our packages by a name that belongs to users."""
    return [
        f"{name}:{found.line}: import {found.module} as warren.{found.module}"
        for found in _written_imports(tree, "")
        if top_of(found.module) in INNER
    ]


def read_packages(root: Path, packages: Collection[str]) -> CodeBase:
    """Read the source files of these packages, once a process; missing ones are left out."""
    return _read_packages(root, tuple(sorted(packages)))


@lru_cache
def _read_packages(root: Path, packages: tuple[str, ...]) -> CodeBase:
    sources = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            sources[name] = (path.read_text(), is_package)
    return parse(sources)


def parse(sources: Mapping[str, tuple[str, bool]]) -> CodeBase:
    """Build a code base from texts, each with whether it is an `__init__.py`."""
    modules = {}
    for name, (text, is_package) in sources.items():
        tree = ast.parse(text, filename=name)
        home = name if is_package else name.rpartition(".")[0]
        modules[name] = Module(name=name, tree=tree, imports=tuple(_imports(tree, home)))
    return modules


def top_level(module: Module) -> Module:
    """Return the module with only the imports that run when it is loaded."""
    body = [node for node in module.tree.body if not isinstance(node, ast.FunctionDef)]
    tree = ast.Module(body=body, type_ignores=[])
    return Module(name=module.name, tree=tree, imports=tuple(_imports(tree, module.name)))


def forbidden_arrows(code: CodeBase, allowed: Mapping[str, Collection[str]]) -> list[str]:
    """Return imports between our packages that the layout does not allow."""
    return [
        f"{module.name}:{found.line}: {module.package} may not import {top_of(found.module)}"
        for module in code.values()
        for found in module.imports
        if top_of(found.module) in allowed
        and top_of(found.module) != module.package
        and top_of(found.module) not in allowed[module.package]
    ]


def forbidden_packages(code: CodeBase, packages: Collection[str]) -> list[str]:
    """Return imports of packages that are never installed."""
    return [
        f"{module.name}:{found.line}: {top_of(found.module)} is never installed"
        for module in code.values()
        for found in module.imports
        if top_of(found.module) in packages
    ]


def import_cycles(code: CodeBase) -> list[str]:
    """Return one cycle through each module that imports itself indirectly."""
    arrows = {name: _neighbours(code, module) for name, module in code.items()}
    cycles: dict[frozenset[str], str] = {}
    for name in code:
        way = _way_back(arrows, name)
        if way:
            cycles.setdefault(frozenset(way), " -> ".join([*way, way[0]]))
    return list(cycles.values())


def room_of(name: str) -> str:
    """Return the sub-package of a module; a module directly in a package is its own."""
    parts = name.split(".")
    return ".".join(parts[:2])


def room_cycles(code: CodeBase) -> list[str]:
    """Return one cycle through each sub-package that imports itself indirectly."""
    arrows: dict[str, set[str]] = {room_of(name): set() for name in code}
    for name, module in code.items():
        room = room_of(name)
        arrows[room] |= {room_of(target) for target in _neighbours(code, module)} - {room}
    cycles: dict[frozenset[str], str] = {}
    for room in arrows:
        way = _way_back(arrows, room)
        if way:
            cycles.setdefault(frozenset(way), " -> ".join([*way, way[0]]))
    return list(cycles.values())


def undescribed_rooms(code: CodeBase) -> list[str]:
    """Return each package and sub-package whose `__init__.py` has no docstring."""
    folders = {name.rpartition(".")[0] for name in code if "." in name}
    return [
        folder
        for folder in sorted(folders)
        if folder in code and not ast.get_docstring(code[folder].tree)
    ]


def type_checking_blocks(code: CodeBase) -> list[str]:
    """Return each use of TYPE_CHECKING, in any spelling."""
    return [
        f"{module.name}:{node.lineno}: TYPE_CHECKING hides an import"
        for module in code.values()
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Name) and node.id == "TYPE_CHECKING")
        or (isinstance(node, ast.Attribute) and node.attr == "TYPE_CHECKING")
    ]


def strayed_libraries(
    code: CodeBase,
    homes: Mapping[str, Collection[str]],
    lent: Mapping[tuple[str, str], Collection[str]],
) -> list[str]:
    """Return the imports of a library outside its home.

    `homes` maps each library to the prefixes of the modules that may import it; `lent` maps a
    (module, name) of a library to the packages that may import just this name.
    """
    return [
        f"{module.name}:{found.line}: {top_of(found.module)} is at home in {', '.join(home)}"
        for module in code.values()
        for found in module.imports
        for home in [homes.get(top_of(found.module))]
        if home is not None
        and not module.name.startswith(tuple(home))
        and module.package not in lent.get((found.module, found.name), ())
    ]


def strayed_words(code: CodeBase, homes: Mapping[str, Collection[str]]) -> list[str]:
    """Return the places outside its home where a word appears as a string literal.

    `homes` maps each word to the prefixes of the modules that may contain it.
    """
    return [
        f"{module.name}:{node.lineno}: {node.value} is at home in {', '.join(homes[node.value])}"
        for module in code.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value in homes
        and not module.name.startswith(tuple(homes[node.value]))
    ]


def heavy_imports(code: CodeBase, roots: Collection[str], allowed: Collection[str]) -> list[str]:
    """Return what a process that starts at `roots` would import beyond `allowed` and Python.

    A prefix in `allowed` that ends with a dot includes everything below it. Importing a module also
    runs the `__init__.py` of its packages.
    """
    fine = tuple(allowed)
    problems = []
    seen = set()
    waiting = [(root, "the start") for root in roots]
    while waiting:
        name, importer = waiting.pop()
        if name in seen or top_of(name) in sys.stdlib_module_names:
            continue
        seen.add(name)
        if name not in fine and not name.startswith(tuple(p for p in fine if p.endswith("."))):
            problems.append(f"{importer} loads {name}")
        elif name in code:
            waiting += [(target, name) for target in _loaded(code, code[name])]
    return problems


def environment_reads(code: CodeBase, allowed: Collection[str]) -> list[str]:
    """Return the modules that read the environment without being `allowed` to."""
    return [
        f"{module.name}:{line}: only the settings read the environment"
        for module in code.values()
        if module.name not in allowed
        for line in _environment_lines(module)
    ]


def needless_permissions(code: CodeBase, allowed: Collection[str]) -> list[str]:
    """Return the allowed modules that do not read the environment."""
    return [
        f"{name} does not read the environment: take it off the list"
        for name in allowed
        if name in code and not _environment_lines(code[name])
    ]


def _imports(tree: ast.Module, home: str) -> Iterator[Import]:
    for found in _written_imports(tree, home):
        if found.module == "warren" and found.name in INNER:
            yield Import(module=found.name, name="", line=found.line)
        else:
            yield Import(module=place_of(found.module), name=found.name, line=found.line)


def _written_imports(tree: ast.Module, home: str) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module=alias.name, name="", line=node.lineno)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield Import(module=_origin(node, home), name=alias.name, line=node.lineno)
        elif isinstance(node, ast.Call) and _called(node) in _IMPORT_BY_TEXT:
            yield from _by_text(node)


def _origin(node: ast.ImportFrom, home: str) -> str:
    """Return the absolute name of the module in a `from` import."""
    if node.level == 0:
        return node.module or ""
    parts = home.split(".")
    above = parts[: len(parts) - node.level + 1]
    return ".".join([*above, node.module] if node.module else above)


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _by_text(node: ast.Call) -> Iterator[Import]:
    """Yield the import of `import_module("a.b")`; computed names cannot be known."""
    if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
        yield Import(module=node.args[0].value, name="", line=node.lineno)


def _target(code: CodeBase, found: Import) -> str:
    """Return the module that an import loads: `from a import b` may mean the module a.b."""
    inner = f"{found.module}.{found.name}"
    return inner if inner in code else found.module


def _neighbours(code: CodeBase, module: Module) -> set[str]:
    return {target for found in module.imports if (target := _target(code, found)) in code}


def _loaded(code: CodeBase, module: Module) -> Iterator[str]:
    """Yield every module that runs when `module` is imported, including `__init__.py` files."""
    for found in module.imports:
        parts = _target(code, found).split(".")
        for length in range(1, len(parts) + 1):
            yield ".".join(parts[:length])


def _way_back(arrows: Mapping[str, set[str]], start: str) -> list[str]:
    """Return a shortest path from `start` to itself, without its end; empty if there is none."""
    ways = {start: [start]}
    waiting = [start]
    for name in waiting:
        for target in sorted(arrows[name]):
            if target == start:
                return ways[name]
            if target not in ways:
                ways[target] = [*ways[name], target]
                waiting.append(target)
    return []


_ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb"})


def _environment_lines(module: Module) -> list[int]:
    taken = [f.line for f in module.imports if f.module == "os" and f.name in _ENVIRONMENT]
    used = [
        node.lineno
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr in _ENVIRONMENT
    ]
    return sorted({*taken, *used})


def patched_constants(name: str, tree: ast.Module) -> list[str]:
    """Return the module constants that a test replaces by `setattr`."""
    return [
        f"{name}:{node.lineno}: {constant} is patched: take it as a parameter"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "setattr"
        for constant in [_replaced(node)]
        if constant.isupper()
    ]


def asked_fixtures(name: str, tree: ast.Module, fixtures: Collection[str]) -> list[str]:
    """Return the tests and fixtures that use one of these fixtures."""
    return [
        f"{name}:{node.lineno}: {node.name} asks for {argument.arg}"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for argument in node.args.args
        if argument.arg in fixtures
    ]


def _replaced(call: ast.Call) -> str:
    """Return the name that `setattr(module, "name", …)` or `setattr("module.name", …)` sets."""
    texts = [
        argument.value
        for argument in call.args[:2]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    return texts[0].rpartition(".")[2] if texts else ""
