"""`warren sso` as it is typed, and `warren check` of single sign-on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.desk import Desk
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, Faults, OidcProvider
from tests.support.schemas import SQLiteSchema
from warren.sql.accounts import identities, users
from warren.sql.models import User

RULES = """\
rules:
  - {group: admins, role: administrator}
  - {group: data, role: operator, apps: [mails, reports], scripts: true}
  - {group: "no", role: viewer, apps: [reports]}
"""


@pytest.fixture
def desk(tmp_path: Path, sqlite_schema: SQLiteSchema) -> Desk:
    desk = Desk(tmp_path, sqlite_schema)
    for app in ("reports", "mails"):
        desk.rows.app(app)
    return desk


def add_linked(desk: Desk, name: str, *groups: str) -> None:
    """Add a user without rights who has signed in at the provider with these groups."""
    desk.warren("users", "add", name, "--role", "viewer", "--apps", "reports", "--no-password")

    def unit(session: object) -> None:
        user = users.find(session, name)  # type: ignore[arg-type]
        identity = identities.add(session, user.id, "https://x", name, now_ms=1, by="tests")  # type: ignore[arg-type]
        identities.set_groups(identity, groups, read_at=1)
        users.set_access(user, sso_until=2, tokens_until=2)

    desk.rows.database.write(unit)


class TestApply:
    def test_it_shows_rules_and_users_before_it_asks(self, desk: Desk) -> None:
        add_linked(desk, "olga", "data", "no")
        name = desk.file(RULES)

        done = desk.warren("sso", "apply", name, status=130)

        assert done.stdout.splitlines() == [
            "new      admins: administrator",
            "new      data: operator of mails, reports, with scripts",
            "new      no: viewer of reports",
            "user     olga: viewer of reports -> operator of mails, reports, with scripts",
        ]
        assert "Apply this?" in done.stderr
        assert desk.warren("sso", "export").stdout == "rules: []\n"

    def test_what_is_applied_is_exported_and_changes_nothing_again(self, desk: Desk) -> None:
        desk.warren("sso", "apply", desk.file(RULES), "--yes")

        exported = desk.warren("sso", "export").stdout

        assert exported == RULES
        again = desk.warren("sso", "apply", desk.file(exported))
        assert again.stdout == "nothing changes\n"

    def test_a_dry_run_changes_nothing(self, desk: Desk) -> None:
        desk.warren("sso", "apply", desk.file(RULES), "--dry-run")

        assert desk.warren("sso", "export").stdout == "rules: []\n"

    def test_a_rule_that_goes_takes_its_rights_along(self, desk: Desk) -> None:
        add_linked(desk, "olga", "no")
        desk.warren("sso", "apply", desk.file(RULES), "--yes")

        done = desk.warren("sso", "apply", desk.file("rules: []\n"), "--yes")

        assert "gone     no: viewer of reports" in done.stdout
        assert "user     olga: viewer of reports -> no rights" in done.stdout
        user = desk.rows.database.read(lambda session: users.by_name(session, "olga"))
        assert user is not None
        assert (user.permission, user.sso_until, user.tokens_until) == (None, 0, 0)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("rules: {}\n", "jobs.yaml:1: expected rules to be a list"),
            ("rule: []\n", "jobs.yaml:1: unknown field 'rule', did you mean 'rules'?"),
            ("rules:\n- {group: a}\n", "jobs.yaml:2: expected role of a rule, it is missing"),
            ("rules:\n- {group: 7, role: viewer}\n", "jobs.yaml:2: expected group to be text"),
            ("rules:\n- {group: a, role: viwer}\n", "did you mean 'viewer'?"),
            ("rules:\n- {group: a, role: viewer, apps: [x]}\n", "jobs.yaml:2: no app named 'x'"),
            ("rules:\n- {group: a, role: viewer}\n", "rule for group 'a': expected the apps of"),
            (
                "rules:\n- {group: a, role: administrator, apps: [mails]}\n",
                "rule for group 'a': an administrator has all apps",
            ),
            (
                "rules:\n- {group: a, role: administrator}\n- {group: a, role: administrator}\n",
                "jobs.yaml:3: duplicate rule for group 'a'",
            ),
        ],
    )
    def test_each_wrong_line_is_named(self, desk: Desk, content: str, words: str) -> None:
        assert words in desk.refused("sso", "apply", desk.file(content), "--yes")

    def test_no_rules_take_away_the_last_administrator(self, desk: Desk) -> None:
        add_linked(desk, "olga", "admins")
        desk.warren("sso", "apply", desk.file(RULES), "--yes")

        refusal = desk.refused("sso", "apply", desk.file("rules: []\n"), "--yes")

        assert refusal == "these rules would leave no administrator who can sign in"

    def test_they_may_where_another_has_a_password(self, desk: Desk) -> None:
        add_linked(desk, "olga", "admins")
        desk.rows.database.write(
            lambda session: session.add(User(name="boss", password="hash", role=1))
        )
        desk.warren("sso", "apply", desk.file(RULES), "--yes")

        desk.warren("sso", "apply", desk.file("rules: []\n"), "--yes")


class TestLink:
    def test_a_user_is_linked_once_and_unlinked(self, desk: Desk) -> None:
        desk.env["WARREN_OIDC_ISSUER"] = "https://login.example.com"
        for name in ("olga", "boss"):
            desk.warren(
                "users", "add", name, "--role", "viewer", "--apps", "reports", "--no-password"
            )

        desk.warren("sso", "link", "olga", "1234")

        assert desk.refused("sso", "link", "olga", "5678") == (
            "olga is already linked to an identity; unlink it first"
        )
        assert desk.refused("sso", "link", "boss", "1234") == (
            "this identity is already linked to user olga"
        )
        desk.warren("sso", "unlink", "olga")
        assert desk.refused("sso", "unlink", "olga") == "olga is not linked to an identity"

    def test_the_last_administrator_with_a_password_keeps_it(self, desk: Desk) -> None:
        desk.env["WARREN_OIDC_ISSUER"] = "https://login.example.com"
        desk.rows.database.write(
            lambda session: session.add(User(name="boss", password="hash", role=1))
        )

        assert desk.refused("sso", "link", "boss", "1234") == (
            "boss is the only administrator with a password, and would lose it"
        )

    def test_the_issuer_is_needed(self, desk: Desk) -> None:
        assert "WARREN_OIDC_ISSUER" in desk.refused("sso", "link", "olga", "1234")


class TestCheck:
    @pytest.fixture
    def desk(self, desk: Desk, provider: OidcProvider) -> Desk:
        desk.env |= {
            "WARREN_SECRET": "s" * 32,
            "WARREN_BROKER_URL": "memory://",
            "WARREN_OIDC_ISSUER": provider.issuer,
            "WARREN_OIDC_CLIENT_ID": CLIENT_ID,
            "WARREN_OIDC_CLIENT_SECRET": CLIENT_SECRET,
            "WARREN_CONSOLE_URL": "https://warren.example.com",
        }
        return desk

    @pytest.fixture
    def provider(self) -> Iterator[OidcProvider]:
        with OidcProvider() as provider:
            yield provider

    def line(self, desk: Desk) -> str:
        done = desk.warren("check", "--for", "console", status=1)  # memory:// is no broker
        said = [*done.stdout.splitlines(), *done.stderr.splitlines()]
        [line] = [line for line in said if "single sign-on" in line]
        return line

    def test_the_provider_is_asked(self, desk: Desk, provider: OidcProvider) -> None:
        assert self.line(desk) == f"ok     single sign-on: {provider.issuer} answers, 1 key"

    def test_one_that_does_not_answer_is_told(self, desk: Desk, provider: OidcProvider) -> None:
        provider.faults = Faults(is_away=True)

        assert self.line(desk).startswith("error: single sign-on: the provider at 127.0.0.1")

    def test_another_issuer_is_told(self, desk: Desk, provider: OidcProvider) -> None:
        desk.env["WARREN_OIDC_ISSUER"] = f"{provider.issuer}/"

        assert f"but the provider says {provider.issuer}" in self.line(desk)

    def test_without_it_there_is_nothing_to_check(self, desk: Desk) -> None:
        del desk.env["WARREN_OIDC_ISSUER"]

        done = desk.warren("check", "--for", "console", status=1)

        assert "single sign-on" not in done.stdout + done.stderr

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("WARREN_OIDC_CLIENT_ID", "WARREN_OIDC_CLIENT_ID: expected what the provider calls"),
            ("WARREN_CONSOLE_URL", "WARREN_OIDC_REDIRECT_URL: expected the console's https URL"),
        ],
    )
    def test_what_is_missing_is_named(self, desk: Desk, name: str, words: str) -> None:
        del desk.env[name]

        assert words in self.line(desk)

    def test_names_that_leave_nobody_for_an_emergency_are_told(self, desk: Desk) -> None:
        desk.env["WARREN_LOCAL_SIGN_IN"] = "olga"

        assert "names none who has one" in self.line(desk)
