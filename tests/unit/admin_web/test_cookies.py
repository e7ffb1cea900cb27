"""What a cookie holds, what the database holds of it, and what a forged one gets."""

import base64
import json
import string
from typing import Any

import pytest
from argon2 import extract_parameters
from argon2.low_level import Type
from flask import Flask
from sqlalchemy import select

from tests.support.console import PASSWORD, SECRET, Clock, Visit, make_app, signed_in, snapshot
from warren.admin_web.access.sign_ins import FORGERY_LIMIT
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.engine import Database
from warren.sql.models import User

_BASE64 = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
HTTPS = "https://jobs.example.com"


def payload(cookie: str) -> dict[str, Any]:
    """Return what anybody who has a cookie can read of it."""
    part = cookie.partition(".")[0]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def flipped(cookie: str, place: int) -> str:
    """Return a cookie with another character; never one that stands for the same bits."""
    index = _BASE64.find(cookie[place])
    other = _BASE64[index ^ 32] if index >= 0 else "A"
    return f"{cookie[:place]}{other}{cookie[place + 1 :]}"


def forgeries(database: Database) -> list[tuple[str, str]]:
    found = database.read(lambda session: audit_log.listing(session, AuditFilter(kind="session")))
    return [(entry.who, entry.origin) for entry in found if entry.action == "session.forge"]


def with_cookie(app: Flask, value: str, address: str = "10.1.2.3") -> Visit:
    visit = Visit(app, address)
    visit.client.set_cookie("warren", value)
    return visit


def everything(database: Database) -> list[str]:
    """Return each text in the database, of every table."""
    tables = snapshot(database).values()
    return [value for rows in tables for row in rows for value in row if isinstance(value, str)]


class TestWhatIsKept:
    def test_the_database_holds_hashes_with_salt_and_no_password(
        self, app: Flask, database: Database
    ) -> None:
        signed_in(app, "viewer")

        kept = database.read(lambda session: session.execute(select(User.password)).scalars().all())

        assert len(kept) == len(set(kept)) == 5
        assert all(extract_parameters(one).type is Type.ID for one in kept)
        assert not [text for text in everything(database) if PASSWORD in text]

    def test_nothing_in_the_database_is_a_cookie_not_even_for_whoever_has_the_secret(
        self, app: Flask, database: Database
    ) -> None:
        admin = signed_in(app, "admin")
        token = payload(admin.cookie())["sign_in"]
        signer = app.session_interface.get_signing_serializer(app)  # type: ignore[attr-defined]
        texts = everything(database)

        assert with_cookie(app, signer.dumps({"sign_in": token})).get("/").status_code == 200
        assert token not in texts
        assert len(texts) > 10
        for text in texts:
            assert with_cookie(app, signer.dumps({"sign_in": text})).get("/").status_code == 303


class TestWhatIsSent:
    def test_a_new_cookie_that_holds_nothing_but_random_tokens(self, visit: Visit) -> None:
        visit.get("/login")
        before = visit.cookie()

        visit.sign_in("admin")

        told = payload(visit.cookie())
        assert visit.cookie() != before
        assert payload(before).keys() == {"csrf_token"}
        assert told.keys() == {"csrf_token", "sign_in"}
        assert told["csrf_token"] != payload(before)["csrf_token"]
        assert len(base64.urlsafe_b64decode(told["sign_in"] + "=")) == 32

    def test_no_two_sign_ins_have_the_same(self, app: Flask) -> None:
        cookies = {payload(signed_in(app, "admin").cookie())["sign_in"] for _ in range(5)}

        assert len(cookies) == 5

    def test_signing_in_again_ends_the_sign_in_of_before(
        self, app: Flask, database: Database
    ) -> None:
        visit = signed_in(app, "admin")
        copied = visit.cookie()

        visit.sign_in("viewer")

        assert with_cookie(app, copied).get("/").status_code == 303
        assert visit.get("/").status_code == 200
        assert len(snapshot(database)["warren_session"]) == 1

    def test_a_refused_sign_in_ends_nothing(self, app: Flask) -> None:
        visit = signed_in(app, "admin")

        assert visit.sign_in("viewer", "not the password").status_code == 401
        assert visit.get("/").status_code == 200

    def test_a_cookie_from_before_the_sign_in_is_worth_nothing_after_it(self, app: Flask) -> None:
        victim, thief = Visit(app), Visit(app)
        thief.get("/login")
        victim.client.set_cookie("warren", thief.cookie())

        victim.sign_in("admin")

        assert thief.get("/").status_code == 303

    @pytest.mark.parametrize(
        ("url", "host", "words"),
        [
            ("", "localhost", {"HttpOnly", "SameSite=Lax", "Path=/"}),
            (HTTPS, "jobs.example.com", {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"}),
        ],
    )
    def test_it_is_for_this_console_and_no_script(
        self, database: Database, clock: Clock, url: str, host: str, words: set[str]
    ) -> None:
        visit = Visit(make_app(database, clock, console_url=url))
        base = {"base_url": f"https://{host}" if url else f"http://{host}"}
        visit.get("/login", **base)

        answer = visit.post("/login", {"username": "admin", "password": PASSWORD}, **base)

        [sent] = answer.headers.getlist("Set-Cookie")
        name, _, told = sent.partition("=")
        assert answer.status_code == 303
        assert name == ("__Host-warren" if url else "warren")
        assert set(told.split("; ")[1:]) == words


class TestForgery:
    def test_each_changed_character_makes_it_nobodys(
        self, app: Flask, admin: Visit, database: Database, clock: Clock
    ) -> None:
        cookie = admin.cookie()
        places = [*range(0, len(cookie), 9), cookie.index("."), cookie.rindex("."), len(cookie) - 1]

        for place in places:
            answer = with_cookie(app, flipped(cookie, place)).get("/")

            assert answer.status_code == 401, place
            clock.pass_seconds(60)
        assert forgeries(database) == [("(unknown user)", "10.1.2.3")] * len(places)
        assert admin.get("/").status_code == 200

    def test_the_token_of_one_in_the_cookie_of_another_is_nobodys(
        self, app: Flask, admin: Visit, database: Database
    ) -> None:
        of_admin, of_viewer = admin.cookie(), signed_in(app, "viewer").cookie()
        mixed = f"{of_admin.partition('.')[0]}.{of_viewer.partition('.')[2]}"

        assert with_cookie(app, mixed).get("/").status_code == 401
        assert len(forgeries(database)) == 1

    @pytest.mark.parametrize(
        "value",
        [
            json.dumps({"id": 1, "username": "admin", "role": 1}).encode().hex(),
            base64.urlsafe_b64encode(b'{"sign_in":"admin"}').decode(),
            "admin",
            "....",
            "é",
            "A" * 3_000,
        ],
    )
    def test_what_somebody_made_up_is_nobodys(
        self, app: Flask, database: Database, value: str
    ) -> None:
        assert with_cookie(app, value).get("/").status_code == 401
        assert len(forgeries(database)) == 1

    def test_a_cookie_of_another_secret_is_nobodys(
        self, app: Flask, database: Database, clock: Clock
    ) -> None:
        other = signed_in(make_app(database, clock, secret=f"{SECRET}-of-another"), "admin")

        assert with_cookie(app, other.cookie()).get("/").status_code == 401
        assert len(forgeries(database)) == 1

    def test_a_cookie_of_the_secret_of_before_is_good_while_that_is_known(
        self, app: Flask, database: Database, clock: Clock
    ) -> None:
        visit = signed_in(app, "admin")
        fresh = make_app(database, clock, secret="n" * 40, secret_previous=SECRET)

        after = with_cookie(fresh, visit.cookie())
        assert after.get("/").status_code == 200

        final = make_app(database, clock, secret="n" * 40)
        assert with_cookie(final, visit.cookie()).get("/").status_code == 401

    def test_whoever_sent_one_can_sign_in_as_everybody(self, app: Flask) -> None:
        visit = with_cookie(app, "made-up")
        assert visit.get("/").status_code == 401

        assert visit.get("/").status_code == 303
        assert visit.sign_in("viewer").status_code == 303

    def test_a_flood_of_them_does_not_fill_the_trail(self, app: Flask, database: Database) -> None:
        for number in range(FORGERY_LIMIT[0] + 20):
            assert with_cookie(app, f"made-up-{number}").get("/").status_code == 401
        with_cookie(app, "made-up", "10.9.9.9").get("/")

        assert len(forgeries(database)) == FORGERY_LIMIT[0] + 1

    def test_a_sign_in_that_has_ended_is_none(
        self, app: Flask, admin: Visit, database: Database
    ) -> None:
        copied = admin.cookie()
        admin.post("/logout")

        assert with_cookie(app, copied).get("/").status_code == 303
        assert forgeries(database) == []
