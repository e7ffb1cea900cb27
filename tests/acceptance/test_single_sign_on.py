"""Single sign-on with the real command: set up by variables, and its rules from a file."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.command import Command, run_warren
from tests.support.eventually import eventually
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, TOKEN, OidcProvider
from tests.support.plain_browser import PlainBrowser
from tests.support.ports import free_port

RULES = "rules: [{group: data, role: administrator}]\n"


@dataclass(frozen=True)
class Site:
    """`warren up` in a folder, and its provider."""

    folder: Path
    provider: OidcProvider
    url: str
    env: dict[str, str]

    def sign_in(self, name: str) -> PlainBrowser:
        """Sign a person in; return the browser at the end."""
        browser = PlainBrowser(self.url)
        way_out = browser.get("/sso/start").place
        back = urlsplit(self.provider.callback(way_out, name))
        browser.get(f"{back.path}?{back.query}")
        return browser

    def warren(self, *arguments: str) -> str:
        done = run_warren(*arguments, folder=self.folder, env=self.env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def make_due(self) -> None:
        """Let all groups be read again now."""
        with closing(sqlite3.connect(self.folder / ".warren/warren.db", timeout=30)) as database:
            database.execute("UPDATE warren_identity SET next_read_at = 0")
            database.commit()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with OidcProvider(redirect_uris=(f"{url}/sso/callback",)) as provider:
        env = {
            "WARREN_PORT": str(port),
            "WARREN_CONSOLE_URL": url,
            "WARREN_OIDC_ISSUER": provider.issuer,
            "WARREN_OIDC_CLIENT_ID": CLIENT_ID,
            "WARREN_OIDC_CLIENT_SECRET": CLIENT_SECRET,
            "WARREN_LOCAL_SIGN_IN": "admin",
        }
        (tmp_path / "rules.yaml").write_text(RULES)
        with Command("up", "--executors", "1", folder=tmp_path, env=env) as command:
            command.wait_for("Ctrl-C stops everything")
            yield Site(tmp_path, provider, url, env)


def test_a_rule_lets_a_group_in_and_out_again(site: Site) -> None:
    site.provider.add("olga", "data")
    assert site.sign_in("olga").answers[-1].status == 403
    assert "new      data: administrator" in site.warren("sso", "apply", "rules.yaml", "--yes")

    olga = site.sign_in("olga")

    assert olga.get("/users").status == 200
    asked = site.provider.requests.count(("POST", TOKEN))
    site.make_due()
    eventually(lambda: site.provider.requests.count(("POST", TOKEN)) > asked)
    assert olga.get("/users").status == 200
    site.provider.people["olga"].groups = []
    site.make_due()
    eventually(lambda: olga.get("/users").status == 303)
    assert "single sign-on" in site.warren("check")
