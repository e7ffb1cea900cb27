"""The commit of a folder is read without git."""

from pathlib import Path

import pytest

from warren.executor.code_version import commit_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / ".git/refs/heads").mkdir(parents=True)
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "jobs").mkdir()
    return tmp_path


def test_commit_of_a_branch(repository: Path) -> None:
    (repository / ".git/refs/heads/main").write_text(COMMIT + "\n")

    assert commit_of(str(repository / "jobs")) == COMMIT


def test_commit_of_a_packed_branch(repository: Path) -> None:
    (repository / ".git/packed-refs").write_text(f"# pack-refs\n{COMMIT} refs/heads/main\n")

    assert commit_of(str(repository)) == COMMIT


def test_commit_without_a_branch(repository: Path) -> None:
    (repository / ".git/HEAD").write_text(COMMIT)

    assert commit_of(str(repository)) == COMMIT


def test_commit_of_a_worktree(repository: Path, tmp_path: Path) -> None:
    (repository / ".git/refs/heads/side").write_text(COMMIT)
    own = repository / ".git/worktrees/side"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/side\n")
    (own / "commondir").write_text("../..\n")
    tree = tmp_path / "elsewhere"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {own}\n")

    assert commit_of(str(tree)) == COMMIT


def test_anything_else_has_none(repository: Path) -> None:
    assert commit_of("") == ""
    assert commit_of(str(repository)) == ""
    (repository / ".git/HEAD").write_text("rubbish")
    assert commit_of(str(repository)) == ""
