"""What every answer tells browsers, and what is refused before a view is called."""

import pytest
import structlog
from flask import Flask

from tests.support.console import Clock, Visit, make_app, signed_in
from tests.support.stored_rows import Rows
from warren.admin_web.pages.dashboard import OverviewReader
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable

PAGES = ["/", "/login", "/account", "/audit", "/nothing", "/static/console.css", "/healthz"]


@pytest.mark.parametrize("path", PAGES)
def test_every_answer_has_the_headers(admin: Visit, path: str) -> None:
    answer = admin.get(path)

    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert "Strict-Transport-Security" not in answer.headers


def test_pages_are_not_kept_and_static_files_are(admin: Visit) -> None:
    page = admin.get("/")
    sheet = page.text.partition('stylesheet" href="')[2].partition('"')[0].replace("&amp;", "&")

    assert page.headers["Cache-Control"] == "no-store"
    assert "immutable" in admin.get(sheet).headers["Cache-Control"]


def test_with_https_cookies_are_bound_to_it(database: Database, clock: Clock) -> None:
    visit = Visit(make_app(database, clock, console_url="https://jobs.example.com"))

    answer = visit.get("/login", headers={"Host": "jobs.example.com"})

    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-warren=")
    assert all(word in cookie for word in ("Secure", "HttpOnly", "SameSite=Lax", "Path=/"))
    assert "Strict-Transport-Security" in answer.headers


class TestForgery:
    def test_a_form_without_its_token_changes_nothing(self, admin: Visit) -> None:
        answer = admin.client.post("/account/theme", data={"theme": "dark"})

        assert answer.status_code == 403
        assert 'data-theme="auto"' in admin.get("/account").text

    def test_a_token_of_another_session_changes_nothing(self, app: Flask, admin: Visit) -> None:
        other = signed_in(app, "viewer")
        admin.token = other.token

        assert admin.post("/account/theme", {"theme": "dark"}).status_code == 403

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ],
    )
    def test_what_another_site_sends_changes_nothing(
        self, admin: Visit, headers: dict[str, str]
    ) -> None:
        answer = admin.post("/account/theme", {"theme": "dark"}, headers=headers)

        assert answer.status_code == 403

    def test_the_own_origin_is_let_through(self, admin: Visit) -> None:
        headers = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}

        answer = admin.post("/account/theme", {"theme": "dark"}, headers=headers)

        assert answer.status_code == 303

    def test_behind_a_proxy_the_public_origin_is_the_own_one(
        self, database: Database, clock: Clock
    ) -> None:
        visit = Visit(make_app(database, clock, console_url="http://jobs.example.com"))
        visit.sign_in("admin")

        headers = {"Origin": "http://jobs.example.com"}

        assert visit.post("/account/theme", {"theme": "dark"}, headers=headers).status_code == 303

    @pytest.mark.parametrize(("scheme", "status"), [("https", 303), ("http", 403)])
    def test_a_page_that_came_by_http_is_not_one_of_a_console_with_https(
        self, database: Database, clock: Clock, scheme: str, status: int
    ) -> None:
        visit = Visit(make_app(database, clock, console_url="https://jobs.example.com"))
        base = {"base_url": "https://jobs.example.com"}
        visit.get("/login", **base)
        headers = {"Origin": f"{scheme}://jobs.example.com", "Referer": "https://jobs.example.com"}

        answer = visit.post("/browser", {"theme": "dark"}, headers=headers, **base)

        assert answer.status_code == status

    @pytest.mark.parametrize(
        ("path", "headers", "who"),
        [
            ("/users/add", {}, "viewer"),
            ("/account/theme", {"Origin": "https://evil.example"}, ""),
        ],
    )
    def test_what_is_refused_is_logged(
        self, app: Flask, path: str, headers: dict[str, str], who: str
    ) -> None:
        visit = signed_in(app, "viewer")

        with structlog.testing.capture_logs() as told:
            visit.post(path, headers=headers)

        facts = {"method": "POST", "path": path, "who": who, "origin": "127.0.0.1"}
        assert told == [{"event": "request_refused", "log_level": "warning"} | facts]

    @pytest.mark.parametrize("header", ["Origin", "Referer"])
    def test_an_address_that_is_none_is_refused_like_a_foreign_one(
        self, app: Flask, header: str
    ) -> None:
        answer = signed_in(app, "viewer").post("/users/add", headers={header: "http://["})

        assert answer.status_code == 403

    def test_no_header_turns_a_get_into_a_change(self, admin: Visit) -> None:
        answer = admin.get("/account/theme", headers={"X-HTTP-Method-Override": "POST"})

        assert answer.status_code == 405


class TestHost:
    @pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:8080", "10.0.0.7"])
    def test_own_names_and_literal_addresses_are_served(self, visit: Visit, host: str) -> None:
        assert visit.get("/login", headers={"Host": host}).status_code == 200

    @pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io"])
    def test_foreign_names_are_refused(self, visit: Visit, host: str) -> None:
        assert visit.get("/login", headers={"Host": host}).status_code == 400

    @pytest.mark.parametrize("path", ["/", "/account", "/nothing", "/users", "/login"])
    def test_no_invented_name_gets_into_a_page_or_a_redirect(
        self, database: Database, clock: Clock, path: str
    ) -> None:
        """Links and redirects are paths, so they lead back to where the browser is."""
        invented = {
            "X-Forwarded-Host": "evil.example",
            "X-Forwarded-Server": "evil.example",
            "X-Original-URL": "//evil.example",
            "Forwarded": "host=evil.example",
            "Host": "10.9.8.7",
        }
        app = make_app(database, clock, trusted_proxies=1)
        signed = signed_in(app, "admin")

        for visit in (Visit(app), signed):
            answer = visit.get(path, headers=invented)

            assert answer.status_code < 500
            for told in (answer.text, str(answer.headers)):
                assert "evil.example" not in told
                assert "10.9.8.7" not in told

    def test_a_redirect_is_a_path(self, visit: Visit) -> None:
        answer = visit.get("/jobs", headers={"Host": "10.9.8.7"})

        assert answer.headers["Location"] == "/login?next=/jobs"

    def test_programs_may_call_health_by_any_name(self, visit: Visit) -> None:
        assert visit.get("/healthz", headers={"Host": "console"}).status_code in (200, 503)


class TestErrors:
    def test_more_than_a_form_may_hold_is_refused(self, admin: Visit) -> None:
        answer = admin.post("/account/theme", {"theme": "x" * 1_100_000})

        assert answer.status_code == 413

    def test_an_unexpected_error_tells_a_number_and_nothing_else(
        self, database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError("mysql://user:secret@host")

        monkeypatch.setattr(OverviewReader, "read", fail)
        answer = signed_in(make_app(database, clock), "admin").get("/overview")

        assert answer.status_code == 500
        assert "Error number:" in answer.text
        assert "secret" not in answer.text
        assert "Traceback" not in answer.text

    def test_a_lost_database_is_a_page_that_comes_back(
        self, admin: Visit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lost(*_: object) -> None:
            raise DatabaseUnavailable("cannot reach mysql://user@host: connection refused")

        with monkeypatch.context() as broken:
            broken.setattr(Database, "read", lost)
            answer = admin.get("/")

        assert answer.status_code == 503
        assert answer.headers["Refresh"]
        assert "Database unavailable" in answer.text
        assert "mysql" not in answer.text
        assert admin.get("/").status_code == 200

    def test_what_is_not_there_is_404_in_words(self, visit: Visit) -> None:
        answer = visit.get("/nothing", headers={"Accept-Language": "zh-CN"})

        assert answer.status_code == 404
        assert "页面不存在" in answer.text

    @pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static//etc"])
    def test_static_files_lead_nowhere_else(self, visit: Visit, path: str) -> None:
        assert visit.get(path).status_code in (308, 400, 404)


def test_pages_have_control_characters_only_as_references(admin: Visit, rows: Rows) -> None:
    job_id = rows.job("nightly", param="red \x1b[31m")

    page = admin.get(f"/jobs/{job_id}/edit").text

    assert "\x1b" not in page
    assert "red &#27;[31m" in page
