"""`warren up` tells what to type in another terminal, and that must work there."""

from pathlib import Path

import pytest

from warren.commands.up import own_name


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "warren"
    path.parent.mkdir()
    path.touch()
    return path


def test_program_on_the_path_is_called_by_its_name(program: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(program)

    assert own_name(str(program), str(program)) == "warren"
    assert own_name(str(program), str(link)) == "warren"


def test_program_of_an_environment_is_called_as_it_was(program: Path, tmp_path: Path) -> None:
    another = tmp_path / "warren"
    another.touch()

    assert own_name(str(program), None) == str(program)
    assert own_name(str(program), str(another)) == str(program)
