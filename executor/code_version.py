"""The git commit of a folder, read from its files: git need not be installed."""

import re
from pathlib import Path

#: The most characters of a file that are read; lists of packed references may be long.
_READ_LIMIT = 10_000_000
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def commit_of(folder: str) -> str:
    """Return the commit that a folder has checked out; empty if it is not in a git repository.

    Uncommitted changes do not show.
    """
    if not folder:
        return ""
    place = Path(folder).absolute()
    for parent in (place, *place.parents):
        git = parent / ".git"
        try:
            if git.exists():
                return _commit_in(_git_folder(git))
        except OSError:
            return ""
    return ""


def _git_folder(git: Path) -> Path:
    """Return the folder behind `.git`, which is a file in worktrees and submodules."""
    if git.is_dir():
        return git
    return git.parent / _read(git).removeprefix("gitdir:").strip()


def _commit_in(git: Path) -> str:
    head = _read(git / "HEAD").strip()
    if not head.startswith("ref:"):
        return _checked(head)
    name = head.removeprefix("ref:").strip()
    # The references of a worktree are those of its repository, which it names.
    common = git / _read(git / "commondir").strip() if (git / "commondir").exists() else git
    for root in (git, common):
        if (root / name).is_file():
            return _checked(_read(root / name).strip())
    if not (common / "packed-refs").is_file():
        return ""
    for line in _read(common / "packed-refs").splitlines():
        commit, _, packed = line.partition(" ")
        if packed == name:
            return _checked(commit)
    return ""


def _checked(commit: str) -> str:
    return commit if _COMMIT.fullmatch(commit) else ""


def _read(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_READ_LIMIT)
