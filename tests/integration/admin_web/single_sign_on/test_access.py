"""How long access holds: groups that are read again, tokens, and signing out."""

import re
import threading
from dataclasses import replace
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from structlog.testing import capture_logs

from tests.support.api import Program, make_api
from tests.support.console import Clock, Visit
from tests.support.oidc_provider import END_SESSION, TOKEN, Faults
from tests.support.sso import HOUR_MS, SsoConsole, is_in
from warren.admin_web.access.group_reader import CLAIM_MS, GroupReader
from warren.admin_web.access.openid_connect import OpenIDConnect
from warren.admin_web.identity_provider import Proof
from warren.resources.operation import Scope
from warren.scheduler.commands.account_commands import TokenSpec
from warren.scheduler.commands.identity_commands import ACCESS_MS, READ_AGAIN_MS
from warren.sql.accounts import identities
from warren.sql.accounts.users import Role
from warren.sql.models import Identity

ACCESS_SECONDS, READ_SECONDS = ACCESS_MS / 1000, READ_AGAIN_MS / 1000


def identity_of(console: SsoConsole, name: str) -> Identity:
    user = console.user(name)
    assert user is not None
    found = console.database.read(lambda session: identities.of_user(session, user.id))
    assert found is not None
    return found


def add_token(console: SsoConsole, name: str) -> str:
    user = console.user(name)
    assert user is not None
    spec = TokenSpec(name=f"of-{name}", owner_id=user.id, scopes=[Scope.READ], days=9)
    return console.commands.tokens.add(spec)


@pytest.fixture
def olga(console: SsoConsole) -> Visit:
    """A browser in which an operator has signed in at the provider."""
    console.rule("data", Role.OPERATOR, "reports")
    console.provider.add("olga", "data")
    visit = console.visit()
    assert console.sign_in(visit, "olga").status_code == 303
    return visit


class SlowProvider(OpenIDConnect):
    """Takes ten seconds for each person; at the eighth, another process makes its round."""

    def __init__(self, console: SsoConsole, other: GroupReader, clock: Clock) -> None:
        self._real, self._other, self._time = console.connection, other, clock
        self._one = threading.Lock()
        self._asked = 0
        self.began_ms = clock.now_ms()

    @property
    def issuer(self) -> str:
        return self._real.issuer

    def seal(self, text: str, owner: str) -> str:
        return self._real.seal(text, owner)

    def unseal(self, sealed: str, owner: str) -> str | None:
        return self._real.unseal(sealed, owner)

    def read_again(self, refresh_token: str, subject: str) -> Proof:
        with self._one:
            self._asked += 1
            self._time.pass_seconds(10)
            if self._asked == 8:
                self._other.run_round()
            return self._real.read_again(refresh_token, subject)


class TestSessions:
    def test_groups_are_read_again_every_five_minutes_so_a_session_goes_on(
        self, console: SsoConsole, olga: Visit, clock: Clock
    ) -> None:
        for _ in range(5):
            clock.pass_seconds(READ_SECONDS)
            console.reader.run_round()
            assert is_in(olga)

        # The code, and five times the refresh token.
        assert console.provider.requests.count(("POST", TOKEN)) == 6

    def test_whoever_is_out_of_the_group_is_out_of_warren(
        self, console: SsoConsole, olga: Visit, clock: Clock
    ) -> None:
        console.provider.people["olga"].groups = ["others"]
        clock.pass_seconds(READ_SECONDS)

        with capture_logs() as logs:
            console.reader.run_round()

        assert not is_in(olga)
        assert console.rights("olga").app_ids == ()
        assert [entry["subject"] for entry in logs] == ["subject-of-olga"]
        assert console.audited(who="sso:groups") == [("sso:groups", "user.rights", "olga")]

    def test_whoever_is_in_another_group_gets_its_rights_at_the_next_sign_in(
        self, console: SsoConsole, olga: Visit, clock: Clock
    ) -> None:
        console.rule("guests", Role.VIEWER, "mails")
        console.provider.people["olga"].groups = ["guests"]
        clock.pass_seconds(READ_SECONDS)

        console.reader.run_round()

        assert console.rights("olga").role is Role.VIEWER
        assert not is_in(olga)
        assert console.sign_in(olga, "olga").status_code == 303

    def test_while_nobody_can_read_groups_access_ends_after_fifteen_minutes_and_says_why(
        self, console: SsoConsole, olga: Visit, clock: Clock
    ) -> None:
        console.provider.faults = Faults(is_away=True)
        clock.pass_seconds(ACCESS_SECONDS - 1)
        console.reader.run_round()
        assert is_in(olga)

        clock.pass_seconds(2)
        console.reader.run_round()

        assert olga.get("/account").status_code == 303
        assert "has not confirmed your groups for 15 minutes" in olga.get("/login").text
        assert "cannot be reached" in (identity_of(console, "olga").fault or "")

    def test_a_provider_that_comes_back_in_time_changes_nothing(
        self, console: SsoConsole, olga: Visit, clock: Clock
    ) -> None:
        console.provider.faults = Faults(status=503)
        clock.pass_seconds(READ_SECONDS)
        console.reader.run_round()
        console.provider.faults = Faults()
        clock.pass_seconds(31)
        console.reader.run_round()
        clock.pass_seconds(ACCESS_SECONDS - 1)

        assert is_in(olga)
        assert identity_of(console, "olga").fault is None

    def test_a_revoked_refresh_token_ends_access_at_once(
        self, console: SsoConsole, olga: Visit, clock: Clock
    ) -> None:
        console.provider.end_sessions()
        clock.pass_seconds(READ_SECONDS)

        console.reader.run_round()

        assert not is_in(olga)
        assert identity_of(console, "olga").refresh_token is None
        assert ("sso:groups", "identity.end", "olga") in console.audited()

    def test_without_a_refresh_token_a_session_lasts_fifteen_minutes(
        self, console: SsoConsole, clock: Clock
    ) -> None:
        console.rule("data", Role.OPERATOR, "reports")
        console.provider.add("olga", "data")
        console.provider.faults = Faults(gives_refresh_tokens=False)
        visit = console.visit()
        console.sign_in(visit, "olga")
        clock.pass_seconds(ACCESS_SECONDS - 1)
        console.reader.run_round()
        assert is_in(visit)

        clock.pass_seconds(1)

        assert not is_in(visit)

    def test_groups_may_come_from_user_info_alone(
        self, console: SsoConsole, olga: Visit, clock: Clock
    ) -> None:
        console.provider.faults = Faults(refreshes_id_token=False)
        clock.pass_seconds(READ_SECONDS)

        console.reader.run_round()
        clock.pass_seconds(ACCESS_SECONDS - 1)

        assert is_in(olga)

    def test_a_new_refresh_token_is_kept_though_groups_cannot_be_read(
        self, console: SsoConsole, olga: Visit, clock: Clock
    ) -> None:
        console.provider.faults = Faults(refreshes_id_token=False, no_user_info=True)
        clock.pass_seconds(READ_SECONDS)
        console.reader.run_round()
        assert "503" in (identity_of(console, "olga").fault or "")
        console.provider.faults = Faults()
        clock.pass_seconds(31)

        console.reader.run_round()

        clock.pass_seconds(ACCESS_SECONDS - 1)
        assert is_in(olga)

    @pytest.mark.usefixtures("olga")
    def test_nobody_is_asked_about_people_who_are_not_here(
        self, console: SsoConsole, clock: Clock
    ) -> None:
        clock.pass_seconds(2 * 3_600)

        console.reader.run_round()

        assert console.provider.requests.count(("POST", TOKEN)) == 1

    def test_two_processes_ask_once(self, console: SsoConsole, olga: Visit, clock: Clock) -> None:
        other = SsoConsole(console.database, clock, console.provider)
        clock.pass_seconds(READ_SECONDS)

        console.reader.run_round()
        other.reader.run_round()

        assert console.provider.requests.count(("POST", TOKEN)) == 2
        assert is_in(olga)

    def test_no_refresh_token_is_used_twice_though_the_provider_is_slow(
        self, console: SsoConsole, clock: Clock
    ) -> None:
        console.rule("data", Role.OPERATOR, "reports")
        names = [f"user-{number}" for number in range(12)]
        for name in names:
            console.provider.add(name, "data")
            console.sign_in(console.visit(), name)
        other = SsoConsole(console.database, clock, console.provider)
        slow = SlowProvider(console, other.reader, clock)
        reader = GroupReader(replace(console.sso, provider=slow), console.database, clock.now_ms)
        clock.pass_seconds(READ_SECONDS)

        reader.run_round()

        assert clock.now_ms() - slow.began_ms > CLAIM_MS
        assert console.provider.requests.count(("POST", TOKEN)) == 2 * len(names)
        assert [identity_of(console, name).fault for name in names] == [None] * len(names)

    @pytest.mark.usefixtures("olga")
    def test_refresh_tokens_are_stored_encrypted_and_only_for_their_owner(
        self, console: SsoConsole
    ) -> None:
        identity = identity_of(console, "olga")
        assert identity.refresh_token is not None

        opened = console.connection.unseal(identity.refresh_token, identity.key_hash)

        assert opened is not None
        assert opened not in identity.refresh_token
        assert console.connection.unseal(identity.refresh_token, "another") is None


class TestTokens:
    @pytest.mark.usefixtures("olga")
    def test_a_token_stops_when_its_owner_is_out_of_the_group(
        self, console: SsoConsole, clock: Clock
    ) -> None:
        program = Program(make_api(console.database, clock), add_token(console, "olga"))
        assert program.get("/jobs").status_code == 200
        console.provider.people["olga"].groups = []
        clock.pass_seconds(READ_SECONDS)

        console.reader.run_round()

        answer = program.get("/jobs")
        assert answer.status_code == 401
        assert "olga has to sign in at the console again" in answer.text

    @pytest.mark.usefixtures("olga")
    def test_a_token_goes_on_without_a_browser_as_long_as_groups_can_be_read(
        self, console: SsoConsole, clock: Clock
    ) -> None:
        program = Program(make_api(console.database, clock), add_token(console, "olga"))

        for _ in range(30):
            clock.pass_seconds(READ_SECONDS)
            console.reader.run_round()

        assert program.get("/jobs").status_code == 200
        console.provider.faults = Faults(is_away=True)
        clock.pass_seconds(ACCESS_SECONDS)
        console.reader.run_round()
        assert program.get("/jobs").status_code == 401

    def test_without_a_refresh_token_it_stops_twelve_hours_after_the_sign_in(
        self, console: SsoConsole, clock: Clock
    ) -> None:
        console.rule("data", Role.OPERATOR, "reports")
        console.provider.add("olga", "data")
        console.provider.faults = Faults(gives_refresh_tokens=False)
        console.sign_in(console.visit(), "olga")
        program = Program(make_api(console.database, clock), add_token(console, "olga"))
        clock.pass_seconds(12 * HOUR_MS / 1000 - 1)
        assert program.get("/jobs").status_code == 200

        clock.pass_seconds(1)
        assert program.get("/jobs").status_code == 401

        console.sign_in(console.visit(), "olga")
        assert program.get("/jobs").status_code == 200


class TestSigningOut:
    def test_it_ends_the_session_here_and_there(self, olga: Visit) -> None:
        olga.get("/account")

        page = olga.post("/logout").text

        found = re.search(r'http-equiv="refresh" content="0;url=([^"]+)"', page)
        assert found is not None
        url = urlsplit(unescape(found[1]))
        told = parse_qs(url.query)
        assert url.path == END_SESSION
        assert told["post_logout_redirect_uri"] == ["http://localhost/login"]
        assert told["id_token_hint"][0].count(".") == 2
        assert not is_in(olga)

    def test_a_console_that_has_just_started_knows_where(
        self, console: SsoConsole, olga: Visit, clock: Clock
    ) -> None:
        restarted = SsoConsole(console.database, clock, console.provider).visit()
        restarted.client.set_cookie("warren", olga.cookie())
        restarted.get("/account")

        assert END_SESSION in restarted.post("/logout").text
        assert not is_in(olga)

    def test_a_provider_that_is_away_keeps_nobody_signed_in_here(
        self, console: SsoConsole, olga: Visit, clock: Clock
    ) -> None:
        console.provider.faults = Faults(is_away=True)
        restarted = SsoConsole(console.database, clock, console.provider).visit()
        restarted.client.set_cookie("warren", olga.cookie())
        restarted.get("/account")

        assert restarted.post("/logout").headers["Location"] == "/login"
        assert not is_in(olga)

    def test_a_provider_without_such_a_place_ends_it_here_only(self, console: SsoConsole) -> None:
        console.provider.faults = Faults(has_end_session=False)
        console.rule("data", Role.OPERATOR, "reports")
        console.provider.add("olga", "data")
        visit = console.visit()
        console.sign_in(visit, "olga")
        visit.get("/account")

        assert visit.post("/logout").headers["Location"] == "/login"
