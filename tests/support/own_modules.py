"""A user's project whose modules have the names of our packages, and handlers that import them."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMES = ("admin_web", "broker", "executor", "resources", "scheduler", "sql")

#: What the handler `words` returns, if each module is the user's.
WORDS = " ".join(f"my-{name}" for name in NAMES)

_IMPORTED = ", ".join(NAMES)
HANDLERS = f"""
import {_IMPORTED}
from pathlib import Path
from warren import Client, JobContext, job

Path(__file__).with_name("loaded").write_text(" ".join(m.WORD for m in ({_IMPORTED})))

@job("words")
def words(context: JobContext) -> str:
    import {_IMPORTED}
    Client("http://127.0.0.1:9", "token")
    return " ".join(m.WORD for m in ({_IMPORTED}))
"""

#: The same in a program of the user's own, without handlers.
PROGRAM = f"""
import {_IMPORTED}
from warren import Client, JobContext, job
Client("http://127.0.0.1:9", "token")
print(*(m.WORD for m in ({_IMPORTED})))
"""


def write_packages(folder: Path) -> Path:
    """Write a package of each name, with modules like ours inside, which must never be imported."""
    for name in NAMES:
        (folder / name).mkdir(parents=True)
        for ours in (ROOT / name).iterdir():
            (folder / name / f"{ours.stem}.py").write_text("raise RuntimeError(__name__)\n")
        (folder / name / "__init__.py").write_text(f"WORD = 'my-{name}'\n")
    return folder


def write_files(folder: Path) -> Path:
    """Write a module of each name, which is no package."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"WORD = 'my-{name}'\n")
    return folder
