"""What Warren says to type must work in another terminal."""

import sys
from pathlib import Path

import pytest

from warren.program_name import module_call, script_call, shown_name


def program(path: Path) -> str:
    path.parent.mkdir(exist_ok=True)
    path.touch()
    return str(path)


class TestScript:
    def test_on_the_path_it_is_called_by_its_name(self, tmp_path: Path) -> None:
        called = program(tmp_path / "bin/warren")
        link = tmp_path / "link"
        link.symlink_to(called)

        assert script_call(called, lambda _: called) == "warren"
        assert script_call(called, lambda _: str(link)) == "warren"

    def test_elsewhere_it_is_called_as_it_was(self, tmp_path: Path) -> None:
        called = program(tmp_path / "bin/warren")
        another = program(tmp_path / "warren")

        assert script_call(called, lambda _: None) == called
        assert script_call(called, lambda _: another) == called

    def test_shell_takes_its_path_as_one_word(self) -> None:
        assert script_call("/my tools/warren", lambda _: None) == "'/my tools/warren'"


class TestModule:
    def test_python_on_the_path_is_called_by_its_name(self, tmp_path: Path) -> None:
        system = program(tmp_path / "python3.11")
        ours = tmp_path / "venv"
        ours.mkdir()
        (ours / "python3").symlink_to(system)
        (ours / "python").symlink_to("python3")

        assert module_call(str(ours / "python3"), lambda name: str(ours / name)) == (
            "python -m warren"
        )
        assert (
            module_call(str(ours / "python"), {"python3": str(ours / "python3")}.get)
            == "python3 -m warren"
        )

    def test_python_of_an_environment_is_called_by_its_path(self, tmp_path: Path) -> None:
        system = program(tmp_path / "python")
        (tmp_path / "my venv").mkdir()
        ours = tmp_path / "my venv/python"
        ours.symlink_to(system)

        assert module_call(str(ours), lambda _: system) == f"'{ours}' -m warren"


def test_help_and_errors_say_how_it_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))

    monkeypatch.setattr(sys, "argv", ["/opt/warren/bin/warren", "jobs"])
    assert shown_name() == "warren"
    monkeypatch.setattr(sys, "argv", ["/opt/lib/warren/__main__.py", "jobs"])
    assert shown_name() == "python -m warren"
