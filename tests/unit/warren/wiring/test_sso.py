"""Single sign-on as it is made from the settings."""

import subprocess
import sys
from pathlib import Path

import pytest

from warren.errors import SettingsError
from warren.settings.settings import Settings
from warren.wiring.sso import local_names, make_sso

SECRET = "s" * 32
ISSUER = "https://login.example.com"


def made(**given: str) -> str:
    """Return why single sign-on is not made, or where the provider sends browsers back."""
    settings = Settings(oidc_issuer=ISSUER, **given)  # type: ignore[arg-type]
    try:
        sso = make_sso(settings, SECRET, lambda: 0)
    except SettingsError as error:
        return "; ".join(error.lines)
    assert sso is not None
    return sso.signed_out_url


def test_the_redirect_url_follows_from_that_of_the_console() -> None:
    assert made(oidc_client_id="warren", console_url="https://example.com/warren") == (
        "https://example.com/warren/login"
    )


def test_one_that_is_set_wins() -> None:
    assert made(
        oidc_client_id="warren",
        console_url="https://example.com",
        oidc_redirect_url="https://example.com/warren/sso/callback",
    ) == ("https://example.com/warren/login")


def test_one_of_another_host_is_refused_because_the_console_would_refuse_it() -> None:
    assert "its host is not that of WARREN_CONSOLE_URL" in made(
        oidc_client_id="warren",
        console_url="https://example.com",
        oidc_redirect_url="https://other.example.com/sso/callback",
    )


def test_all_that_is_missing_is_named_at_once() -> None:
    said = made()

    assert "WARREN_OIDC_CLIENT_ID: expected what the provider calls Warren" in said
    assert "it is not set, and neither is WARREN_CONSOLE_URL" in said


def test_a_console_without_https_is_refused() -> None:
    said = made(oidc_client_id="warren", console_url="http://warren.example.com")

    assert said.startswith("WARREN_OIDC_REDIRECT_URL: expected the console's https URL")


def test_without_an_issuer_there_is_none() -> None:
    assert make_sso(Settings(oidc_client_id="warren"), SECRET, lambda: 0) is None


@pytest.mark.parametrize(
    ("named", "names"), [("all", None), ("admin,olga", frozenset({"admin", "olga"}))]
)
def test_passwords_are_for_all_or_for_some(named: str, names: frozenset[str] | None) -> None:
    assert local_names(Settings(local_sign_in=named)) == names


def test_nobody_without_it_loads_its_libraries(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "import warren.wiring.console, warren.wiring.web\n"
        "print([name for name in ('authlib', 'joserfc') if name in sys.modules])\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"
