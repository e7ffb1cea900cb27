"""Signing in: who is let in, how a sign-in ends, and what guessing gets."""

import re
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from argon2 import Parameters, PasswordHasher, extract_parameters
from flask import Flask
from sqlalchemy import event, update

from tests.support.acting import NamedUsers
from tests.support.console import PASSWORD, Clock, Visit, add_user, make_app, signed_in, snapshot
from warren.admin_web.access.sign_ins import (
    ACCOUNT_LIMIT,
    ADDRESS_LIMIT,
    IDLE_SECONDS,
    LONGEST_SECONDS,
)
from warren.scheduler.commands.passwords import hash_password
from warren.sql.accounts import audit_log, sign_ins, users
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.models import AuditEntry, SignIn, User

FRESH = "another horse battery"


def entries(database: Database, **wanted: Any) -> list[AuditEntry]:
    return list(database.read(lambda session: audit_log.listing(session, AuditFilter(**wanted))))


def is_in(visit: Visit) -> bool:
    return visit.get("/account").status_code == 200


def without_token(page: str) -> str:
    return re.sub(r'(name="csrf.token"[^>]*(?:value|content)=)"[^"]*"', r"\1", page)


class TestWayIn:
    def test_the_right_password_leads_to_the_page_that_was_asked_for(self, visit: Visit) -> None:
        asked = visit.get("/audit?kind=job")
        assert asked.headers["Location"] == "/login?next=/audit?kind%3Djob"

        answer = visit.sign_in("admin", path=asked.headers["Location"])

        assert answer.headers["Location"] == "/audit?kind=job"

    @pytest.mark.parametrize(
        ("asked", "page"),
        [
            ("/jobs/create", "/jobs/new"),
            ("/jobs/7/save", "/jobs/7/edit"),
            ("/jobs/7/copy/create", "/jobs/7/copy"),
            ("/jobs/7/trigger/run", "/jobs/7/trigger"),
            ("/users/add", "/users/new"),
            ("/users/7/password", "/users/7"),
            ("/apps/add", "/apps/new"),
            ("/glue/7/save", "/glue/7"),
            ("/account/sign-ins/7/end", "/account"),
            ("/runs/bulk/start?page=1", "/runs"),
            ("/logout", "/"),
        ],
    )
    def test_an_address_that_only_takes_a_form_leads_to_the_page_with_the_form(
        self, visit: Visit, asked: str, page: str
    ) -> None:
        answer = visit.sign_in("admin", path=f"/login?{urlencode({'next': asked})}")

        assert answer.headers["Location"] == page

    def test_whoever_opens_such_an_address_finds_a_link_to_that_page(self, app: Flask) -> None:
        rules = [rule for rule in app.url_map.iter_rules() if "GET" not in (rule.methods or ())]
        admin, paths = signed_in(app, "admin"), [re.sub("<[^>]+>", "7", one.rule) for one in rules]
        opened = app.url_map.bind("")

        assert len(paths) > 30
        for path in paths:
            back = re.search(r'button main" href="([^"]+)"', admin.get(path).text)

            assert back is not None, path
            assert opened.test(back[1].partition("?")[0], method="GET"), path

    @pytest.mark.parametrize(
        "target",
        [
            "//evil.example",
            "///evil.example",
            "http:evil.example",
            "//evil.example\\@localhost",
            "https://evil.example",
            "/\\evil.example",
            "javascript:alert(1)",
            "/\t/evil.example",
            "evil",
            "",
            "\\\\evil.example",
            "/ok\r\nX: y",
        ],
    )
    def test_no_other_site_is_gone_on_to(self, visit: Visit, target: str) -> None:
        path = f"/login?{urlencode({'next': target})}"

        answer = visit.sign_in("admin", path=path)
        theme = visit.post(path.replace("/login", "/browser"), {"theme": "dark"})

        assert answer.headers["Location"] == theme.headers["Location"] == "/"

    def test_wrong_and_unknown_get_the_same_answer(self, visit: Visit) -> None:
        wrong = visit.sign_in("admin", "not the password")
        unknown = visit.sign_in("nobody", "not the password")

        assert wrong.status_code == unknown.status_code == 401
        assert "Wrong user name or password." in wrong.text
        scrubbed = [without_token(answer.text) for answer in (wrong, unknown)]
        assert scrubbed[0].replace("admin", "x") == scrubbed[1].replace("nobody", "x")

    def test_an_unknown_name_costs_the_same_work_as_a_known_one(
        self, app: Flask, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All that takes time is the hash and the database; a clock would only tell of the load."""
        real_hash = (
            update(User).where(User.name == "admin").values(password=hash_password("y" * 12))
        )
        database.write(lambda session: session.execute(real_hash))
        work: list[Any] = []

        def verify(_: PasswordHasher, kept: str, password: str) -> bool:
            work.append(extract_parameters(kept))
            return real(_, kept, password)

        def execute(*told: Any) -> None:
            work.append(told[2])

        real = PasswordHasher.verify
        monkeypatch.setattr(PasswordHasher, "verify", verify)
        monkeypatch.setattr(PasswordHasher, "hash", lambda *_: work.append("hash"))
        event.listen(database.engine, "before_cursor_execute", execute)

        def work_for(name: str, address: str) -> list[Any]:
            visit = Visit(app, address)
            visit.get("/login")
            work.clear()
            assert visit.post("/login", {"username": name, "password": "x"}).status_code == 401
            return work.copy()

        known, unknown = work_for("admin", "10.0.0.1"), work_for("nobody", "10.0.0.2")

        assert known == unknown
        assert [type(step) for step in known].count(Parameters) == 1

    def test_a_user_disabled_while_the_password_is_checked_is_not_let_in(
        self, visit: Visit, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refund(*told: Any, **more: Any) -> None:
            real(*told, **more)
            users.set_disabled(users.find(told[0], "operator"), is_disabled=True)

        real = sign_ins.refund
        monkeypatch.setattr(sign_ins, "refund", refund)
        answer = visit.sign_in("operator")

        assert answer.status_code == 401
        assert "Wrong user name or password." in answer.text
        assert database.read(lambda session: session.query(SignIn).all()) == []

    def test_a_disabled_user_gets_the_answer_of_a_wrong_password(
        self, app: Flask, database: Database
    ) -> None:
        NamedUsers(database, who="admin").disable("operator")

        right = Visit(app, "10.0.0.1").sign_in("operator")
        wrong = Visit(app, "10.0.0.2").sign_in("operator", "not the password")

        assert right.status_code == wrong.status_code == 401
        assert without_token(right.text) == without_token(wrong.text)
        assert [entry.action for entry in entries(database, kind="session")] == [
            "session.refuse"
        ] * 2

    @pytest.mark.parametrize(
        "name",
        ["viewer ", " viewer", "viewer\t", "viewer\n", "v", "v" * 51, "visiteur-é", "a@b.example"],
    )
    def test_what_can_be_nobodys_name_is_neither_counted_nor_looked_up(
        self, app: Flask, visit: Visit, database: Database, name: str
    ) -> None:
        visit.get("/login")
        before = snapshot(database)

        answers = [
            visit.post("/login", {"username": name, "password": PASSWORD})
            for _ in range(ADDRESS_LIMIT[0] + 1)
        ]

        assert {answer.status_code for answer in answers} == {422}
        assert "A name has 4 to 50 letters" in answers[0].text
        assert snapshot(database) == before
        assert Visit(app).sign_in("viewer").status_code == 303

    def test_an_empty_field_is_named_and_nothing_is_counted(
        self, visit: Visit, database: Database
    ) -> None:
        answer = visit.sign_in("admin", "")

        assert answer.status_code == 422
        assert "Required." in answer.text
        assert 'value="admin"' in answer.text
        assert entries(database, kind="session") == []


class TestEnd:
    def test_signing_out_ends_a_copied_cookie_too(self, app: Flask, admin: Visit) -> None:
        thief = Visit(app)
        thief.client.set_cookie("warren", admin.cookie())
        assert is_in(thief)

        admin.post("/logout")

        assert not is_in(thief)
        assert not is_in(admin)

    def test_another_password_ends_all_sign_ins_but_this_one(
        self, app: Flask, admin: Visit
    ) -> None:
        elsewhere = signed_in(app, "admin")
        form = {"present": PASSWORD, "fresh": FRESH, "again": FRESH}

        answer = admin.post("/account/password", form)

        assert answer.status_code == 303
        assert is_in(admin)
        assert not is_in(elsewhere)
        assert Visit(app).sign_in("admin", FRESH).status_code == 303

    def test_other_rights_end_a_sign_in(self, app: Flask, database: Database) -> None:
        operator = signed_in(app, "operator")

        commands = NamedUsers(database, who="admin")
        commands.set_rights("operator", role=Role.VIEWER, app_names=["mails"])

        assert not is_in(operator)

    def test_without_a_click_a_sign_in_ends(self, admin: Visit, clock: Clock) -> None:
        clock.pass_seconds(IDLE_SECONDS - 1)
        assert is_in(admin)
        clock.pass_seconds(IDLE_SECONDS - 1)
        assert is_in(admin)

        clock.pass_seconds(IDLE_SECONDS + 1)

        assert not is_in(admin)

    def test_a_page_that_refreshes_itself_keeps_no_sign_in_alive(
        self, admin: Visit, clock: Clock
    ) -> None:
        for _ in range(3):
            clock.pass_seconds(IDLE_SECONDS / 2 - 1)
            answer = admin.get("/", headers={"Warren-Live": "1"})

        assert answer.status_code == 401

    def test_after_half_a_day_a_sign_in_ends_however_busy(self, admin: Visit, clock: Clock) -> None:
        for _ in range(int(LONGEST_SECONDS / IDLE_SECONDS)):
            assert is_in(admin)
            clock.pass_seconds(IDLE_SECONDS)

        clock.pass_seconds(1)

        assert not is_in(admin)

    def test_one_of_the_own_sign_ins_can_be_ended_and_nobody_elses(
        self, app: Flask, admin: Visit, database: Database
    ) -> None:
        viewer = signed_in(app, "viewer")
        elsewhere = signed_in(app, "admin")
        rows = database.read(lambda session: session.query(SignIn).order_by(SignIn.id).all())

        for row in rows[1:]:
            admin.post(f"/account/sign-ins/{row.id}/end")

        assert is_in(admin)
        assert is_in(viewer)
        assert not is_in(elsewhere)

    def test_what_has_run_out_is_forgotten(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        database.write(
            lambda session: sign_ins.clean_sessions(
                session, seen_before_ms=clock.now + 1, made_before_ms=0
            )
        )

        assert not is_in(admin)


class TestGuessing:
    def guess(self, visit: Visit, name: str = "admin", password: str = "wrong wrong") -> int:
        return visit.post("/login", {"username": name, "password": password}).status_code

    @pytest.mark.parametrize(
        ("address", "name", "limit"),
        [
            ("10.0.0.1", "admin", ACCOUNT_LIMIT[0]),
            ("10.0.0.{}", "admin", ACCOUNT_LIMIT[0]),
            ("10.0.0.1", "user-{}", ADDRESS_LIMIT[0]),
            ("fe80::aa:{}", "user-{}", ADDRESS_LIMIT[0]),
        ],
        ids=["one account", "from many addresses", "many accounts", "within a network of IPv6"],
    )
    def test_twenty_guesses_at_once_are_more_than_are_looked_at(
        self, app: Flask, address: str, name: str, limit: int
    ) -> None:
        answers = [
            Visit(app, address.format(number)).sign_in(name.format(number), "wrong wrong")
            for number in range(20)
        ]

        assert [answer.status_code for answer in answers] == [401] * limit + [429] * (20 - limit)
        assert all(0 < int(answer.headers["Retry-After"]) <= 60 for answer in answers[limit:])

    def test_twenty_guesses_in_a_minute_are_one_more_than_at_once(
        self, visit: Visit, clock: Clock
    ) -> None:
        answers = []
        for _ in range(20):
            answers.append(visit.sign_in("admin", "wrong wrong").status_code)
            clock.pass_seconds(3)

        assert answers.count(401) == ACCOUNT_LIMIT[0]
        clock.pass_seconds(3)
        assert visit.sign_in("admin", "wrong wrong").status_code == 401
        assert visit.sign_in("admin", "wrong wrong").status_code == 429

    def test_the_right_password_waits_too_and_other_users_do_not(
        self, app: Flask, visit: Visit
    ) -> None:
        visit.get("/login")
        for _ in range(ACCOUNT_LIMIT[0]):
            self.guess(visit)

        right = visit.sign_in("admin", PASSWORD)
        wrong = visit.sign_in("admin", "wrong wrong")

        assert right.status_code == wrong.status_code == 429
        assert int(right.headers["Retry-After"]) > 0
        assert right.headers["Retry-After"] == wrong.headers["Retry-After"]
        assert without_token(right.text) == without_token(wrong.text)
        assert set(right.headers.keys()) == set(wrong.headers.keys())
        assert Visit(app, "10.9.9.9").sign_in("operator").status_code == 303
        assert visit.sign_in("operator").status_code == 303

    def test_after_the_time_that_was_told_it_goes_on(self, visit: Visit, clock: Clock) -> None:
        visit.get("/login")
        for _ in range(ACCOUNT_LIMIT[0]):
            self.guess(visit)
        answer = visit.sign_in("admin", PASSWORD)

        clock.pass_seconds(int(answer.headers["Retry-After"]))

        assert visit.sign_in("admin", PASSWORD).status_code == 303

    def test_two_consoles_and_a_restart_count_together(
        self, database: Database, clock: Clock
    ) -> None:
        answers = []
        for _ in range(ACCOUNT_LIMIT[0] + 1):
            visit = Visit(make_app(database, clock))
            visit.get("/login")
            answers.append(self.guess(visit))

        assert answers[-2:] == [401, 429]

    def test_the_right_password_costs_nothing(self, app: Flask) -> None:
        for _ in range(ACCOUNT_LIMIT[0] + 3):
            assert Visit(app).sign_in("admin").status_code == 303

    def test_capitals_and_forwarded_addresses_are_no_way_around(self, app: Flask) -> None:
        answers = []
        for number in range(ACCOUNT_LIMIT[0] + 1):
            visit = Visit(app)
            visit.get("/login")
            form = {"username": "aDmin" if number % 2 else "admin", "password": "wrong wrong"}
            headers = {"X-Forwarded-For": f"10.0.0.{number}"}
            answers.append(visit.post("/login", form, headers=headers).status_code)

        assert answers[-1] == 429

    @pytest.mark.parametrize(
        "name", ["X-Forwarded-For", "X-Real-IP", "Forwarded", "Client-IP", "True-Client-IP"]
    )
    def test_an_invented_address_is_neither_counted_nor_written_down(
        self, app: Flask, database: Database, name: str
    ) -> None:
        answers = []
        for number in range(ADDRESS_LIMIT[0] + 1):
            visit = Visit(app, "10.5.5.5")
            visit.get("/login")
            value = f"for=10.0.0.{number}" if name == "Forwarded" else f"10.0.0.{number}"
            form = {"username": f"user-{number}", "password": "wrong wrong"}
            answers.append(visit.post("/login", form, headers={name: value}).status_code)

        assert answers == [401] * ADDRESS_LIMIT[0] + [429]
        assert {entry.origin for entry in entries(database, kind="session")} == {"10.5.5.5"}

    def test_behind_a_trusted_proxy_only_its_own_word_counts(
        self, database: Database, clock: Clock
    ) -> None:
        """A proxy appends the address that it sees to whatever the visitor has invented."""
        visit = Visit(make_app(database, clock, trusted_proxies=1))
        visit.get("/login")

        answers = [
            visit.post(
                "/login",
                {"username": f"user-{number}", "password": "wrong wrong"},
                headers={"X-Forwarded-For": f"10.0.0.{number}, 10.7.7.7"},
            ).status_code
            for number in range(ADDRESS_LIMIT[0] + 1)
        ]

        assert answers == [401] * ADDRESS_LIMIT[0] + [429]
        assert {entry.origin for entry in entries(database, kind="session")} == {"10.7.7.7"}

    def test_behind_a_trusted_proxy_each_visitor_is_counted_alone(
        self, database: Database, clock: Clock
    ) -> None:
        visit = Visit(make_app(database, clock, trusted_proxies=1))
        visit.get("/login")

        answers = [
            visit.post(
                "/login",
                {"username": f"user-{number}", "password": "wrong wrong"},
                headers={"X-Forwarded-For": f"10.0.0.{number}"},
            ).status_code
            for number in range(ADDRESS_LIMIT[0] + 2)
        ]

        assert set(answers) == {401}

    def test_the_present_password_cannot_be_guessed_on_the_account_page(self, admin: Visit) -> None:
        form = {"present": "wrong wrong", "fresh": FRESH, "again": FRESH}

        pages = [admin.post("/account/password", form).text for _ in range(ACCOUNT_LIMIT[0] + 1)]

        assert "This is not your current password." in pages[0]
        assert "Too many attempts." in pages[-1]


class TestTrail:
    def test_sign_ins_and_refusals_are_noted_with_their_address(
        self, app: Flask, database: Database
    ) -> None:
        visit = Visit(app, "10.1.2.3")
        visit.sign_in("admin", "not the password")
        visit.sign_in("admin")
        visit.post("/logout")

        found = entries(database, kind="session")

        assert [entry.action for entry in found] == [
            "session.end",
            "session.open",
            "session.refuse",
        ]
        assert {(entry.who, entry.origin) for entry in found} == {("admin", "10.1.2.3")}

    def test_a_password_typed_as_a_name_is_not_kept(self, visit: Visit, database: Database) -> None:
        visit.sign_in("my.secret.password", "x")
        visit.sign_in("my secret password", "x")

        assert [entry.who for entry in entries(database, kind="session")] == ["(unknown user)"]


class TestFirstAdministrator:
    @pytest.fixture
    def empty(self, sqlite_schema_url: str) -> Any:
        database = Database(sqlite_schema_url)
        yield database
        database.close()

    def test_must_choose_a_password_before_anything_else(
        self, empty: Database, clock: Clock
    ) -> None:
        first = NamedUsers(empty, who="console").add_first()
        visit = Visit(make_app(empty, clock))
        assert visit.sign_in("admin", first or "").status_code == 303

        assert visit.get("/").headers["Location"] == "/account"
        assert visit.get("/audit").headers["Location"] == "/account?next=/audit"
        form = {"present": first, "fresh": FRESH, "again": FRESH}
        answer = visit.post("/account/password", form)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/")
        assert visit.get("/").status_code == 200

    @pytest.mark.parametrize(
        ("wanted", "reached"),
        [
            ("/runs?status=FAILED&page=2", "/runs?status=FAILED&page=2"),
            ("https://elsewhere.example/", "/"),
            ("//elsewhere.example", "/"),
        ],
    )
    def test_gets_to_the_page_that_was_asked_for_once_the_password_is_chosen(
        self, empty: Database, clock: Clock, wanted: str, reached: str
    ) -> None:
        first = NamedUsers(empty, who="console").add_first()
        visit = Visit(make_app(empty, clock))
        visit.get("/login")
        signed = visit.post(
            f"/login?{urlencode({'next': wanted})}", {"username": "admin", "password": first}
        )
        account = visit.get(signed.headers["Location"]).headers["Location"]
        page = visit.get(account).text
        action = re.search(r'action="(/account/password[^"]*)"', page)
        assert action

        form = {"present": first, "fresh": FRESH, "again": "a mistake"}
        again = visit.post(unescape(action[1]), form)
        form["again"] = FRESH
        answer = visit.post(unescape(action[1]), form)

        assert again.status_code == 422
        assert unescape(action[1]) in unescape(again.text)
        assert answer.headers["Location"] == reached

    @pytest.mark.parametrize(
        ("name", "password"),
        [
            ("admin", "123456"),
            ("admin", "admin"),
            ("admin", "password"),
            ("admin", "admin123"),
            ("admin", "warren"),
            ("admin", "default_token"),
            ("xxl-job", "xxl-job"),
            ("xxl", "xxl"),
            ("root", "root"),
            ("user", "123456"),
            ("warren", "warren"),
            ("guest", "guest"),
        ],
    )
    def test_has_no_password_that_anybody_knows(
        self, empty: Database, clock: Clock, name: str, password: str
    ) -> None:
        NamedUsers(empty, who="console").add_first()

        answer = Visit(make_app(empty, clock)).sign_in(name, password)

        assert answer.status_code == (401 if len(name) >= 4 else 422)

    def test_is_the_only_user_of_a_fresh_console_and_made_once(self, empty: Database) -> None:
        commands = NamedUsers(empty, who="console")

        first, second = commands.add_first(), commands.add_first()

        found = empty.read(users.listing)
        assert [(user.name, user.must_change_password) for user in found] == [("admin", 1)]
        assert first is not None
        assert len(first) == 16
        assert second is None

    @pytest.mark.parametrize(
        ("fresh", "words"),
        [
            ("short", "Use 8 to 200 characters."),
            ("x" * 201, "Use 8 to 200 characters."),
            (PASSWORD, "This is already your password."),
            ("Password1", "This password is too common."),
            ("1234567890", "This password is too common."),
        ],
    )
    def test_a_bad_new_password_is_refused_beside_its_field(
        self, app: Flask, admin: Visit, fresh: str, words: str
    ) -> None:
        form = {"present": PASSWORD, "fresh": fresh, "again": fresh}

        answer = admin.post("/account/password", form)

        assert answer.status_code == 422
        assert words in answer.text
        assert Visit(app).sign_in("admin").status_code == 303

    def test_the_own_name_is_no_password(self, app: Flask, database: Database) -> None:
        add_user(database, "bartholomew", Role.ADMINISTRATOR)
        visit = signed_in(app, "bartholomew")
        form = {"present": PASSWORD, "fresh": "Bartholomew", "again": "Bartholomew"}

        answer = visit.post("/account/password", form)

        assert answer.status_code == 422
        assert "The password cannot be the user name." in answer.text

    @pytest.mark.parametrize("fresh", ["x" * 64, "пароль 密码 ünïcode", "  with spaces  "])
    def test_a_good_new_password_is_taken_as_it_is(
        self, app: Flask, admin: Visit, fresh: str
    ) -> None:
        form = {"present": PASSWORD, "fresh": fresh, "again": fresh}

        assert admin.post("/account/password", form).status_code == 303
        assert Visit(app).sign_in("admin", fresh).status_code == 303
        assert Visit(app).sign_in("admin", f"{fresh} ").status_code == 401
