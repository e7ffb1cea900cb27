"""Whatever stands in a text is only text, in every field, on every page and in every file."""

import re
from html.parser import HTMLParser
from typing import Any, cast

import pytest
import yaml
from flask import Flask

from tests.support.console import Clock, Visit, make_app, signed_in
from tests.support.eventually import eventually
from tests.support.fixed_logs import FixedLogs
from tests.support.sample_app import SampleApp, add_sample_app
from tests.support.stored_rows import Rows
from warren.broker.rpc import Requester
from warren.jobfile.export import job_file
from warren.sql.engine import Database

PAYLOADS = [
    "javascript:alert(1)",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "t{{7*7}}t",
]
#: Kept for others than people who look at pages.
SHOWN_NOWHERE = {"scheduler-of-run", "wanted-address"}


class Page(HTMLParser):
    """What a browser makes of a page: its texts, and whatever could run or lead somewhere."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self.dangers: list[str] = []
        self._is_script = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.texts += values.values()
        if tag == "script" and not values.get("src", "").startswith("/static/"):
            self.dangers.append(f"a script: {values}")
        if tag in ("img", "iframe", "object", "embed", "base", "style"):
            self.dangers.append(tag)
        for name, value in values.items():
            if name.startswith("on") or name in ("style", "srcdoc", "hx-on"):
                self.dangers.append(f"{name}={value}")
            leads = name in ("href", "src", "action", "formaction", "xlink:href", "hx-get")
            if leads and not re.match(r"(/(?!/)|[?#]|https://github|data:image)", value):
                self.dangers.append(f"{name}={value}")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def shown(self) -> str:
        """Return all texts, those in attributes included."""
        return "\n".join(self.texts)


def paths(app: Flask, made: SampleApp) -> list[str]:
    """Return every path that can be opened, of a job and of a script."""
    with app.test_request_context():
        return sorted(
            {
                app.url_for(rule.endpoint, **made.values(set(rule.arguments), script=is_script))
                for rule in app.url_map.iter_rules()
                if "GET" in (rule.methods or set()) and rule.endpoint != "static"
                for is_script in (False, True)
            }
            | {f"/glue/{made.ids['script_id']}/compare?old=1&new=2", "/runs?job=nothing"}
        )


def nasty(field: str) -> str:
    """Return all payloads, each with the field's name behind it."""
    return " ".join(f"{payload}~{field}~" for payload in PAYLOADS)


def test_each_text_is_shown_as_text_and_as_nothing_else(
    database: Database, rows: Rows, clock: Clock
) -> None:
    requester = cast("Requester", FixedLogs(nasty("log-line")))
    app = make_app(database, clock, job_file=job_file, requester=requester)
    admin = signed_in(app, "admin")
    made = add_sample_app(rows, "mails", nasty, clock.now)
    seen: dict[str, set[str]] = {payload: set() for payload in PAYLOADS}

    eventually(lambda: "being computed" not in admin.get("/ledger").text)
    for path in paths(app, made):
        answer = admin.get(path)

        assert answer.status_code in (200, 303, 403, 404, 405, 422, 503), path
        assert "t49t" not in answer.text, path
        if answer.content_type.startswith("text/html"):
            page = Page(answer.text)
            assert page.dangers == [], path
            for payload, fields in seen.items():
                fields |= set(re.findall(re.escape(payload) + "~([a-z-]+)~", page.shown()))
        else:
            assert_harmless_file(answer)

    for payload, fields in seen.items():
        assert (made.fields | {"log-line"}) - fields == SHOWN_NOWHERE, payload


def assert_harmless_file(answer: Any) -> None:
    """Require that no browser takes a file for a page."""
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    kind = answer.content_type.partition(";")[0]
    if kind == "image/svg+xml":
        return  # the icon: a number
    assert kind in ("application/json", "application/yaml", "text/plain")
    if kind != "application/json":
        is_file = answer.headers.get("Content-Disposition", "").startswith("attachment; filename=")
        assert is_file or answer.status_code != 200


@pytest.mark.parametrize("payload", [*PAYLOADS, "a: b\n- c # d", "'\"\\\u2028\x85é𝄞"])
def test_a_job_file_holds_each_text_as_it_is(
    database: Database, rows: Rows, clock: Clock, payload: str
) -> None:
    app = make_app(database, clock, job_file=job_file)
    texts = {"author": f"{payload}~author~", "param": f"{payload}~param~"}
    job_id = rows.job(f"{payload}~job~", **texts)

    text = signed_in(app, "admin").get(f"/jobs/{job_id}/yaml").text

    [job] = yaml.safe_load(text)["jobs"]
    assert job["name"] == f"{payload}~job~"
    assert job["param"] == f"{payload}~param~"
    assert job["author"] == f"{payload}~author~"


def test_what_was_typed_into_a_form_comes_back_as_text(admin: Visit) -> None:
    for payload in PAYLOADS:
        for path in ("/jobs", "/runs", "/executors", "/ledger", "/audit", "/users", "/jobs/new"):
            fields = ("name", "handler", "author", "app", "job", "address", "who", "since", "after")
            page = admin.get(path, query_string=dict.fromkeys(fields, payload))
            assert Page(page.text).dangers == [], path
            assert "t49t" not in page.text
        for path in ("/jobs/create", "/apps/add", "/users/add", "/login", "/runs/clear/start"):
            fields = ("name", "handler", "app_name", "title", "addresses", "emails", "webhook")
            form = dict.fromkeys((*fields, "username", "author", "param", "cron", "job"), payload)
            page = admin.post(path, form | {"mode": "listed", "schedule_kind": "CRON"})
            assert Page(page.text).dangers == [], path
            assert "t49t" not in page.text


def test_a_name_in_a_query_cannot_change_where_links_lead(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("nightly")
    for number in range(60):
        rows.run(job_id, clock.now - number)
        rows.job(f"job-{number:02}")
    for _ in range(30):
        admin.post("/schedulers/resume")
        admin.post("/schedulers/pause", {"reason": "an upgrade"})

    for path in ("/jobs", "/runs", "/audit"):
        for names in (
            {"_external": "1", "_scheme": "javascript", "_anchor": "x"},
            {"endpoint": "x"},
            {"self": "x", "values": "y"},
            {"_method": "POST", "_scheme": "javascript"},
            {"before": "1", "after": "1", "_external": "1"},
        ):
            answer = admin.get(path, query_string=names)

            assert answer.status_code == 200, (path, names)
            assert Page(answer.text).dangers == [], (path, names)
            assert 'rel="next"' in answer.text or "before" in names, (path, names)
