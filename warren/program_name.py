"""The name of this program, in help, in errors, and where it says what to type next.

It is `warren`, the script, or `python -m warren` where the script is not installed.
"""

import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

SCRIPT = "warren"

#: Finds a program on the path, as a shell does.
Find = Callable[[str], str | None]


def shown_name() -> str:
    """Return the name in help and errors: `warren`, or else how the module was called."""
    return module_call(sys.executable) if is_module(sys.argv[0]) else SCRIPT


def own_call() -> str:
    """Return what to type in another terminal to run this program."""
    called = sys.argv[0]
    return module_call(sys.executable) if is_module(called) else script_call(called)


def is_module(called: str) -> bool:
    """Whether this program was called as `python -m warren`."""
    return Path(called).name == "__main__.py"


def script_call(called: str, find: Find = shutil.which) -> str:
    """Return how to call the script: `warren` only if that is what the path finds."""
    on_path = find(SCRIPT)
    if on_path is not None and Path(on_path).resolve() == Path(called).resolve():
        return SCRIPT
    return shlex.quote(called)


def module_call(interpreter: str, find: Find = shutil.which) -> str:
    """Return how to call the module: `python -m warren` only if the path finds this Python.

    The Python of a virtual environment is a link, so its folder counts as well.
    """
    for name in ("python", "python3"):
        on_path = find(name)
        if on_path is not None and _place(on_path) == _place(interpreter):
            return f"{name} -m {SCRIPT}"
    return f"{shlex.quote(interpreter)} -m {SCRIPT}"


def _place(interpreter: str) -> tuple[Path, Path]:
    path = Path(interpreter)
    return path.parent.resolve(), path.resolve()
