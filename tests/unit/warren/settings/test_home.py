"""The folder that `warren up` keeps."""

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from warren.cli import root
from warren.errors import CommandError, SettingsError
from warren.settings.home import OpenHome, home_secret, known_secret
from warren.settings.settings import Settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("WARREN_SECRET", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_folder_and_secret_are_their_owners_only(folder: Path) -> None:
    OpenHome()
    home_secret(Settings())

    assert stat.S_IMODE((folder / ".warren").stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / ".warren/secret").stat().st_mode) == 0o600


def test_secret_is_long_and_stays_the_same() -> None:
    OpenHome()

    first, second = home_secret(Settings()), home_secret(Settings())

    assert len(first) >= 32
    assert first == second


def test_each_folder_has_a_secret_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    OpenHome()
    first = home_secret(Settings())
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    OpenHome()

    assert home_secret(Settings()) != first


def test_secret_of_the_settings_goes_first(folder: Path) -> None:
    OpenHome()

    assert home_secret(Settings(secret="s" * 32)) == "s" * 32
    assert not (folder / ".warren/secret").exists()


def test_second_one_on_the_folder_is_refused() -> None:
    OpenHome()

    with pytest.raises(CommandError, match=r"another `warren up` is using .*\.warren"):
        OpenHome()


def test_a_start_that_is_refused_leaves_only_what_was_there(folder: Path) -> None:
    with OpenHome() as refused:
        home_secret(Settings())
    left_by_refused = (folder / ".warren").exists()
    with OpenHome() as started:
        home_secret(Settings())
        started.keep()
    with OpenHome() as refused_later:
        pass

    assert not refused.is_kept
    assert not left_by_refused
    assert refused_later.is_kept
    assert (folder / ".warren/secret").exists()


@pytest.mark.parametrize("command", ["app", "webhook"])
def test_keys_of_its_apps_are_printed_without_settings(command: str) -> None:
    OpenHome()
    secret = home_secret(Settings())

    printed = CliRunner().invoke(root, ["secrets", command, "reports"]).stdout

    assert (
        printed
        == CliRunner(env={"WARREN_SECRET": secret})
        .invoke(root, ["secrets", command, "reports"])
        .stdout
    )
    assert len(printed) > 32


def test_another_database_does_not_have_its_secret() -> None:
    OpenHome()
    home_secret(Settings())

    with pytest.raises(SettingsError, match="WARREN_SECRET"):
        known_secret(Settings(database_url="sqlite:///other.db"))
