"""Signing in at the provider: who is let in with which rights, and each way it can go wrong."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from html import unescape

import pytest
from structlog.testing import capture_logs

from tests.support.console import PASSWORD, Clock, Visit, make_app, signed_in
from tests.support.oidc_provider import KEYS, Faults, OidcProvider
from tests.support.sso import SsoConsole, is_in
from warren.admin_web.pages.single_sign_on import ATTEMPT_SECONDS
from warren.admin_web.services import ASKING
from warren.admin_web.serving.http_server import PAGE_THREADS
from warren.sql.accounts import identities
from warren.sql.accounts.users import Rights, Role
from warren.sql.engine import Database
from warren.sql.registry import apps


def said(page: str) -> str:
    """Return the one line that a page says."""
    alert = page.partition('role="alert">')[2]
    return unescape(alert.partition("<span>")[2].partition("</span>")[0])


def detail(page: str) -> str:
    """Return what the page has from the provider."""
    return unescape(page.partition('lang="en"><code>')[2].partition("</code>")[0])


class TestWayIn:
    def test_a_member_of_a_group_with_a_rule_gets_a_user_with_its_rights(
        self, console: SsoConsole, visit: Visit
    ) -> None:
        console.rule("data", Role.OPERATOR, "reports")
        console.provider.add("olga", "data", "others")

        answer = console.sign_in(visit, "olga", "/sso/start?next=/runs")

        assert (answer.status_code, answer.headers["Location"]) == (303, "/runs")
        assert is_in(visit)
        reports = console.database.read(apps.ids_by_name)["reports"]
        assert console.rights("olga") == Rights(role=Role.OPERATOR, app_ids=(reports,))
        assert console.audited(name="olga") == [
            ("olga", "user.add", "olga"),
            ("olga", "identity.link", "olga"),
            ("olga", "session.open", "olga"),
        ]

    def test_the_same_person_is_the_same_user_whatever_name_and_email_are_by_now(
        self, console: SsoConsole
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        person = console.provider.add("olga", "data", subject="1234")
        console.sign_in(console.visit(), "olga")
        person.claims |= {"preferred_username": "olga-married", "email": "other@example.com"}

        console.sign_in(console.visit(), "olga")

        assert console.user("olga-married") is None
        assert (
            console.audited(action="session.open", who="olga")
            == [("olga", "session.open", "olga")] * 2
        )

    def test_a_new_person_never_becomes_a_user_that_is_there(
        self, console: SsoConsole, visit: Visit
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("admin", "data", subject="stranger")

        console.sign_in(visit, "admin")

        assert console.rights("admin").role is Role.ADMINISTRATOR
        assert console.rights("admin-2").role is Role.VIEWER
        assert visit.get("/users").status_code == 403

    @pytest.mark.parametrize(
        ("proposed", "name"),
        [("olga@example.com", "olga"), ("Bo", "user-Bo"), ("张伟", "user"), ("a b/c d", "a-b-c-d")],
    )
    def test_the_name_is_made_of_what_the_provider_proposes(
        self, console: SsoConsole, visit: Visit, proposed: str, name: str
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("someone", "data", preferred_username=proposed)

        console.sign_in(visit, "someone")

        assert console.user(name) is not None

    def test_two_who_sign_in_at_once_for_the_first_time_with_one_subject_are_one_user(
        self, console: SsoConsole
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        browsers = [console.visit(), console.visit()]
        backs = [
            console.way_back(browser.get("/sso/start").headers["Location"], "olga")
            for browser in browsers
        ]

        answers = [browser.get(back) for browser, back in zip(browsers, backs, strict=True)]

        assert [answer.status_code for answer in answers] == [303, 303]
        assert console.user("olga-2") is None

    def test_a_tab_that_comes_back_after_another_has_signed_in_is_signed_in_too(
        self, console: SsoConsole, visit: Visit
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        first, second = (visit.get("/sso/start").headers["Location"] for _ in range(2))
        visit.get(console.way_back(first, "olga"))

        answer = visit.get(console.way_back(second, "olga"))

        assert (answer.status_code, answer.headers["Location"]) == (303, "/")
        assert is_in(visit)

    def test_subjects_that_a_database_may_take_for_the_same_are_two_users(
        self, console: SsoConsole
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data", subject="abc")
        console.provider.add("other", "data", subject="ABC ")

        for name in ("olga", "other"):
            console.sign_in(console.visit(), name)

        assert console.user("olga") is not None
        assert console.user("other") is not None

    def test_whoever_matches_no_rule_gets_nothing_and_is_told_whom_to_ask(
        self, console: SsoConsole, visit: Visit
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "others", subject="<1234>")

        answer = console.sign_in(visit, "olga")

        assert answer.status_code == 403
        assert said(answer.text) == (
            "None of your groups has rights in Warren. Ask the platform team."
        )
        assert "&lt;1234&gt;" in answer.text
        assert console.user("olga") is None
        assert not is_in(visit)

    def test_missing_groups_are_told_from_groups_without_rights(
        self, console: SsoConsole, visit: Visit
    ) -> None:
        console.provider.add("olga", no_groups=True)

        answer = console.sign_in(visit, "olga")

        assert answer.status_code == 403
        assert said(answer.text).startswith("The provider names no groups for you")

    def test_the_log_says_why_somebody_is_refused_and_which_groups_the_provider_named(
        self, console: SsoConsole
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        console.provider.add("guest", "/data", "others")
        console.provider.add("stranger", no_groups=True)
        console.sign_in(console.visit(), "olga")
        olga = console.user("olga")
        assert olga is not None
        console.commands.users.disable(olga.id)

        with capture_logs() as logs:
            for name in ("olga", "guest", "stranger"):
                console.sign_in(console.visit(), name)
            console.provider.faults = Faults(denies=True)
            console.sign_in(console.visit(), "guest")

        refused = [entry for entry in logs if entry["event"] == "sso_sign_in_refused"]
        assert [(entry.get("subject"), entry["reason"]) for entry in refused] == [
            ("subject-of-olga", "the user is disabled"),
            ("subject-of-guest", "no rule matches the groups: /data, others"),
            ("subject-of-stranger", "the provider names no groups"),
            (None, "the provider said: access_denied"),
        ]

    def test_five_hundred_groups_are_all_read(self, console: SsoConsole, visit: Visit) -> None:
        console.rule("group-499", Role.VIEWER, "reports")
        names = [f"group-{number}" for number in range(500)]
        console.provider.add("olga", *names)

        console.sign_in(visit, "olga")

        user = console.user("olga")
        assert user is not None
        identity = console.database.read(lambda s: identities.of_user(s, user.id))
        assert identity is not None
        assert identities.groups_of(identity) == tuple(names)

    @pytest.mark.parametrize(
        ("claim", "claims"),
        [
            ("realm_access.roles", {"realm_access": {"roles": ["data"]}}),
            ("https://example.com/groups", {"https://example.com/groups": ["data", 7]}),
            ("roles", {"roles": "data"}),
        ],
    )
    def test_the_claim_with_the_groups_may_have_another_name_and_place(
        self,
        database: Database,
        clock: Clock,
        provider: OidcProvider,
        claim: str,
        claims: dict[str, object],
    ) -> None:
        console = SsoConsole(database, clock, provider, {"groups_claim": claim})
        console.rule("data", Role.VIEWER, "reports")
        provider.add("olga", no_groups=True, **claims)
        visit = console.visit()

        console.sign_in(visit, "olga")

        assert is_in(visit)

    def test_groups_behind_a_link_are_named_with_the_way_to_set_them_up(
        self, console: SsoConsole, visit: Visit
    ) -> None:
        console.provider.add("olga", "data")
        console.provider.faults = Faults(groups_by_link=True)

        answer = console.sign_in(visit, "olga")

        assert answer.status_code == 401
        assert "can make it send only the groups that are assigned to Warren" in said(answer.text)

    def test_a_disabled_user_stays_out(self, console: SsoConsole, visit: Visit) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        console.sign_in(console.visit(), "olga")
        user = console.user("olga")
        assert user is not None
        console.commands.users.disable(user.id)

        answer = console.sign_in(visit, "olga")

        assert answer.status_code == 403
        assert said(answer.text) == "Your user is disabled. Ask the platform team."

    def test_without_it_the_pages_are_not_there(self, visit: Visit, database: Database) -> None:
        plain = Visit(make_app(database, Clock()))

        assert plain.get("/sso/start").status_code == 404
        assert "single sign-on" not in plain.get("/login").text
        assert "single sign-on" in visit.get("/login").text


class TestWrongAnswers:
    @pytest.mark.parametrize(
        ("faults", "words"),
        [
            (Faults(audience="another"), "'aud'"),
            (Faults(issuer="https://evil.example"), "'iss'"),
            (Faults(nonce="another"), "'nonce'"),
            (Faults(is_expired=True), "expired"),
            (Faults(unknown_key=True), "bad_signature"),
            (Faults(is_unsigned=True), "algorithm"),
            (Faults(clock_seconds=3_600), "the clock here says"),
            (Faults(clock_seconds=-3_600), "the clock here says"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_token_that_is_wrong_in_one_thing_signs_nobody_in(
        self, console: SsoConsole, visit: Visit, faults: Faults, words: str
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        url = visit.get("/sso/start").headers["Location"]
        console.provider.faults = faults

        answer = visit.get(console.way_back(url, "olga"))

        assert answer.status_code == 401
        assert said(answer.text) == "The provider's answer does not prove a sign-in."
        assert words in detail(answer.text)
        assert not is_in(visit)
        assert console.user("olga") is None
        assert console.audited(action="session.refuse")

    @pytest.mark.parametrize(
        "subject", ["a\nb", "a\0b", " "], ids=["two lines", "no text", "blank"]
    )
    def test_a_subject_that_nobody_can_have_signs_nobody_in(
        self, console: SsoConsole, visit: Visit, subject: str
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data", subject=subject)

        answer = console.sign_in(visit, "olga")

        assert answer.status_code == 401
        assert said(answer.text) == "The provider's answer does not prove a sign-in."
        assert not is_in(visit)

    @pytest.mark.parametrize("groups", [7, {"data": True}, True])
    def test_a_claim_that_is_no_list_names_no_groups(
        self, console: SsoConsole, visit: Visit, groups: object
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", no_groups=True, groups=groups, _claim_names=groups)

        answer = console.sign_in(visit, "olga")

        assert answer.status_code == 403
        assert said(answer.text).startswith("The provider names no groups for you")

    @pytest.mark.parametrize("at", [float("nan"), float("inf")])
    def test_a_time_of_signing_in_that_is_none_is_left_out(
        self, console: SsoConsole, visit: Visit, at: object
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data", auth_time=at)

        console.sign_in(visit, "olga")

        assert is_in(visit)

    @pytest.mark.parametrize(
        "tokens",
        [
            "[" * 100_000,
            '{"id_token":' * 5_000,
            '{"id_token": NaN}',
            r'{"error": "access_denied", "error_description": "\ud800"}',
        ],
        ids=["a list without end", "an object without end", "no number", "half a character"],
    )
    def test_an_answer_that_is_not_json_is_named(
        self, console: SsoConsole, visit: Visit, tokens: str
    ) -> None:
        console.provider.add("olga", "data")
        url = visit.get("/sso/start").headers["Location"]
        console.provider.faults = Faults(tokens=tokens)

        answer = visit.get(console.way_back(url, "olga"))

        assert answer.status_code == 503
        assert "/token answered without a JSON object" in detail(answer.text)
        assert not is_in(visit)

    def test_clocks_may_differ_by_half_a_minute(self, console: SsoConsole, visit: Visit) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        console.provider.faults = Faults(clock_seconds=30)

        console.sign_in(visit, "olga")

        assert is_in(visit)

    @pytest.mark.parametrize("spoil", [lambda back: back + "x", lambda _: "/sso/callback"])
    def test_a_wrong_or_missing_state_signs_nobody_in(
        self, console: SsoConsole, visit: Visit, spoil: Callable[[str], str]
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        console.provider.faults = Faults(state="another")
        back = console.way_back(visit.get("/sso/start").headers["Location"], "olga")

        answer = visit.get(spoil(back))

        assert answer.status_code == 400
        assert not is_in(visit)

    def test_what_one_browser_began_no_other_can_end(
        self, console: SsoConsole, visit: Visit
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        back = console.way_back(visit.get("/sso/start").headers["Location"], "olga")

        victim = console.visit()
        victim.get("/sso/start")

        assert victim.get(back).status_code == 400
        assert not is_in(victim)

    def test_a_way_back_works_once(self, console: SsoConsole, visit: Visit) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        back = console.way_back(visit.get("/sso/start").headers["Location"], "olga")
        cookie = visit.cookie()
        assert visit.get(back).status_code == 303
        visit.client.set_cookie("warren", cookie)

        answer = visit.get(back)

        assert answer.status_code == 401
        assert "refused its own code" in detail(answer.text)

    def test_a_way_back_is_open_for_ten_minutes(
        self, console: SsoConsole, visit: Visit, clock: Clock
    ) -> None:
        console.provider.add("olga", "data")
        url = visit.get("/sso/start").headers["Location"]
        clock.pass_seconds(ATTEMPT_SECONDS + 1)

        assert visit.get(console.way_back(url, "olga")).status_code == 400

    def test_what_the_provider_refuses_is_told(self, console: SsoConsole, visit: Visit) -> None:
        console.provider.add("olga", "data")
        console.provider.faults = Faults(denies=True)

        answer = console.sign_in(visit, "olga")

        assert answer.status_code == 401
        assert said(answer.text) == "The provider did not sign you in."
        assert detail(answer.text) == "access_denied"

    def test_a_wrong_client_secret_is_told_as_such(
        self, database: Database, clock: Clock, provider: OidcProvider
    ) -> None:
        console = SsoConsole(database, clock, provider, {"client_secret": "wrong"})
        provider.add("olga", "data")

        answer = console.sign_in(console.visit(), "olga")

        assert answer.status_code == 401
        assert (
            detail(answer.text)
            == "the provider refused Warren's client ID or secret: invalid_client"
        )

    def test_a_client_secret_may_have_any_characters(
        self, database: Database, clock: Clock
    ) -> None:
        secret = "5+/g%2B:h=~&"
        with OidcProvider(clock=lambda: clock.now / 1000, secret=secret) as provider:
            console = SsoConsole(database, clock, provider, {"client_secret": secret})
            console.rule("data", Role.VIEWER, "reports")
            provider.add("olga", "data")
            visit = console.visit()

            console.sign_in(visit, "olga")

            assert is_in(visit)

    def test_a_public_client_needs_no_secret(self, database: Database, clock: Clock) -> None:
        with OidcProvider(clock=lambda: clock.now / 1000, secret="") as provider:
            console = SsoConsole(database, clock, provider, {"client_secret": None})
            console.rule("data", Role.VIEWER, "reports")
            provider.add("olga", "data")
            visit = console.visit()

            console.sign_in(visit, "olga")

            assert is_in(visit)

    def test_many_wrong_ways_back_have_to_wait(self, console: SsoConsole, visit: Visit) -> None:
        console.provider.add("olga", "data")
        console.provider.faults = Faults(nonce="another")

        answers = [console.sign_in(visit, "olga") for _ in range(16)]

        assert [answer.status_code for answer in answers] == [401] * 15 + [429]
        assert answers[-1].headers["Retry-After"] == "20"

    def test_another_issuer_in_the_answer_is_refused(
        self, console: SsoConsole, visit: Visit
    ) -> None:
        console.provider.add("olga", "data")
        back = console.way_back(visit.get("/sso/start").headers["Location"], "olga")

        answer = visit.get(f"{back}&iss=https%3A%2F%2Fevil.example")

        assert answer.status_code == 401
        assert not is_in(visit)


class TestKeys:
    def test_a_new_key_of_the_provider_is_fetched(self, console: SsoConsole, clock: Clock) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        console.sign_in(console.visit(), "olga")
        console.provider.rotate_key()
        clock.pass_seconds(11)
        visit = console.visit()

        console.sign_in(visit, "olga")

        assert is_in(visit)
        assert console.provider.requests.count(("GET", KEYS)) == 2

    def test_a_key_that_the_provider_has_withdrawn_counts_for_an_hour_at_most(
        self, console: SsoConsole, clock: Clock
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        console.sign_in(console.visit(), "olga")
        clock.pass_seconds(3_601)

        console.sign_in(console.visit(), "olga")

        assert console.provider.requests.count(("GET", KEYS)) == 2

    def test_known_keys_do_while_the_provider_gives_none(
        self, console: SsoConsole, visit: Visit, clock: Clock
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        console.sign_in(console.visit(), "olga")
        clock.pass_seconds(3_601)
        console.provider.faults = Faults(no_keys=True)

        console.sign_in(visit, "olga")

        assert is_in(visit)

    def test_a_new_key_without_a_name_is_fetched_too(
        self, console: SsoConsole, visit: Visit, clock: Clock
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        console.provider.faults = Faults(has_key_ids=False)
        console.sign_in(console.visit(), "olga")
        console.provider.rotate_key()
        clock.pass_seconds(11)

        console.sign_in(visit, "olga")

        assert is_in(visit)

    @pytest.mark.parametrize(
        "key",
        [
            {"kty": "EC", "crv": "brainpoolP256r1", "x": "AA", "y": "AA", "kid": "odd"},
            {"kty": "RSA", "n": "AQAB", "e": "AQAB", "use": "tls", "kid": "odd"},
            {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA", "kid": "odd"},
            {"kid": "odd"},
            "no key",
        ],
        ids=["curve", "use", "type", "none", "text"],
    )
    def test_a_key_that_nobody_here_understands_spoils_no_other(
        self, console: SsoConsole, visit: Visit, key: object
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        console.provider.faults = Faults(odd_keys=[key])

        console.sign_in(visit, "olga")

        assert is_in(visit)

    def test_keys_are_not_fetched_twice_within_ten_seconds(self, console: SsoConsole) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        console.sign_in(console.visit(), "olga")
        console.provider.rotate_key()

        for _ in range(3):
            assert console.sign_in(console.visit(), "olga").status_code == 401

        assert console.provider.requests.count(("GET", KEYS)) == 1


class TestProviderAway:
    def test_a_provider_that_is_away_is_told_with_the_way_in_by_password(
        self, console: SsoConsole, visit: Visit
    ) -> None:
        console.provider.faults = Faults(is_away=True)

        answer = visit.get("/sso/start")

        assert answer.status_code == 503
        assert said(answer.text).startswith("Single sign-on does not work at the moment")
        assert 'href="/login"' in answer.text
        assert is_in(signed_in(console.app, "admin"))

    def test_one_that_goes_away_on_the_way_is_told(self, console: SsoConsole, visit: Visit) -> None:
        console.provider.add("olga", "data")
        back = console.way_back(visit.get("/sso/start").headers["Location"], "olga")
        console.provider.faults = Faults(status=502)

        answer = visit.get(back)

        assert answer.status_code == 503
        assert "answered with status 502" in detail(answer.text)

    def test_a_slow_one_is_given_up(self, console: SsoConsole, visit: Visit) -> None:
        console.provider.faults = Faults(delay_seconds=30)

        answer = visit.get("/sso/start")

        assert answer.status_code == 503
        assert detail(answer.text).endswith("does not answer in time")

    def test_few_pages_wait_for_a_slow_one(self, console: SsoConsole) -> None:
        console.provider.faults = Faults(delay_seconds=30)
        count = PAGE_THREADS

        with ThreadPoolExecutor(count) as threads:
            answers = list(threads.map(lambda _: console.visit().get("/sso/start"), range(count)))

        assert [answer.status_code for answer in answers] == [503] * count
        said = [detail(answer.text) for answer in answers]
        refused = said.count("too many people wait for the provider; try again")
        assert 1 <= refused <= count - ASKING  # a busy machine may be late with one

    @pytest.mark.parametrize(
        ("status", "words"), [(200, "without a JSON object"), (404, "with status 404")]
    )
    def test_what_is_no_provider_is_told_by_its_address(
        self, console: SsoConsole, visit: Visit, status: int, words: str
    ) -> None:
        console.provider.faults = Faults(status=status)
        place = console.provider.issuer.removeprefix("http://")

        answer = visit.get("/sso/start")

        assert (
            detail(answer.text)
            == f"the provider at {place}/.well-known/openid-configuration answered {words}"
        )

    def test_one_that_calls_itself_otherwise_is_refused(
        self, database: Database, clock: Clock, provider: OidcProvider
    ) -> None:
        console = SsoConsole(database, clock, provider, {"issuer": f"{provider.issuer}/"})

        answer = console.visit().get("/sso/start")

        assert answer.status_code == 503
        assert f"expected the issuer {provider.issuer}/, but the provider says" in answer.text


class TestPasswords:
    def test_a_linked_user_has_none(self, console: SsoConsole) -> None:
        operator = console.user("operator")
        assert operator is not None

        console.commands.identities.link(operator.id, console.provider.issuer, "1234")

        assert console.visit().sign_in("operator").status_code == 401

    def test_only_named_users_use_theirs_where_they_are_switched_off(
        self, database: Database, clock: Clock, provider: OidcProvider
    ) -> None:
        limited = {"local_names": frozenset({"admin"})}
        console = SsoConsole(database, clock, provider, services=limited)

        assert console.visit().sign_in("admin", PASSWORD).status_code == 303
        assert console.visit().sign_in("operator", PASSWORD).status_code == 401
        assert "<details" in console.visit().get("/login").text
