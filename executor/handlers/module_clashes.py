"""Finds modules that handlers import and that exist in more than one of the handlers' folders.

All these folders are on `sys.path`, and a process has only one module of each name. So if there are
`a/util.py` and `b/util.py`, the handlers of one folder would get the other's. Imported only for an
executor with handlers in several folders.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType


def find_clash(sources: Mapping[Path, Path]) -> str:
    """Return a sentence about a module that two folders have; "" if there is none.

    `sources` has the folder of each file that was loaded. The modules that count are those imported
    while the handlers were loaded, and those that an import statement in the handlers or in these
    modules names anywhere, even in a function. Files that nobody imports do not count: each folder
    may have its own setup.py.
    """
    folders = sorted(set(sources.values()))
    loaded = _loaded_from(folders)
    imported = {name for name, path in loaded.items() if path not in sources}
    for path in {*sources, *loaded.values()}:
        imported.update(_imports(path))
    for name in sorted(imported):
        module, files = _files_of(name, folders)
        if len(files) > 1 and _is_theirs(sys.modules.get(module), files):
            first, second, *_ = sorted(files)
            return (
                f"they import {module!r}, and there is {first} and {second}: "
                "rename one, or run an executor for each folder"
            )
    return ""


def _loaded_from(folders: list[Path]) -> dict[str, Path]:
    """Return the files of the loaded modules that lie in these folders, by the module's name."""
    loaded = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and any(Path(file).is_relative_to(each) for each in folders):
            path = Path(file).resolve()
            _, files = _files_of(name, folders)
            if any(path == each or path.is_relative_to(_package(each)) for each in files):
                loaded[name] = path
    return loaded


def _imports(path: Path) -> Iterator[str]:
    """Yield the dotted names that a file imports; `from a import b` gives `a.b`."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # whoever imports a file that cannot be read will report it
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _files_of(name: str, folders: list[Path]) -> tuple[str, set[Path]]:
    """Return the first module of a dotted name that is a file, and that file in each folder."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        files = {file for folder in folders if (file := _find(parts[:length], folder))}
        if files:
            return ".".join(parts[:length]), files
    return name, set()


def _find(parts: list[str], folder: Path) -> Path | None:
    """Return the file of a module below folders without `__init__.py`; None if there is none."""
    *parents, last = parts
    spec = PathFinder.find_spec(last, [str(folder.joinpath(*parents))])
    return Path(spec.origin).resolve() if spec and spec.has_location and spec.origin else None


def _package(file: Path) -> Path:
    """Return the folder of a package by its `__init__.py`; any other file as it is."""
    return file.parent if file.stem == "__init__" else file


def _is_theirs(module: ModuleType | None, files: set[Path]) -> bool:
    """Whether the handlers get one of the files, and not a module that was loaded before."""
    return module is None or _file_of(module) in files


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if isinstance(file, str) else None
