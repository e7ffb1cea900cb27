"""What nobody may set by the API, and what nobody may read."""

import json
from typing import Any

import msgspec
import pytest
from flask import Flask
from sqlalchemy import update

from tests.support.api import Program, make_token
from tests.support.console import Clock, Visit, signed_in, snapshot
from tests.support.sample_app import SampleApp, add_sample_app
from tests.support.stored_rows import Rows
from tests.unit.admin_web.api.test_access import VALUES, call, views
from warren.admin_web.api.endpoint import Mounted
from warren.resources.operation import Scope
from warren.scheduler.jobs.spec import FIELDS
from warren.sql.engine import Database
from warren.sql.models import Alarm, ApiToken, App, Job, SignIn, User

#: What URLs of webhooks, signing secrets, and what is stored of passwords and tokens contain here.
URL, SIGN, HASH = "sealed-path", "sealed-sign", "sealed-hash"


@pytest.fixture
def made(rows: Rows, clock: Clock) -> SampleApp:
    made = add_sample_app(rows, "reports", lambda name: name, clock.now)
    hook = f"https://hooks.example.com/{URL}"
    of_targets = {"alarm_webhook": hook, "webhook_url": hook, "alarm_secret": SIGN}
    assert of_targets.keys() == {name for name, field in FIELDS.items() if field.kind.is_secret}

    def seal(session: Any) -> None:
        for table in (App, Job):
            session.execute(update(table).values(**of_targets))
        session.execute(update(Alarm).values(channel="webhook", target=hook))
        session.execute(update(User).where(User.name == "user").values(password=HASH))
        made_id = ApiToken.id == made.ids["token_id"]
        session.execute(update(ApiToken).where(made_id).values(token_hash=HASH))

    rows.database.write(seal)
    return made


def answer_fields(one: Mounted) -> set[str]:
    answer = one.endpoint.answer
    is_struct = isinstance(answer, type) and issubclass(answer, msgspec.Struct)
    return {field.encode_name for field in msgspec.structs.fields(answer)} if is_struct else set()


def test_no_field_that_cannot_be_written_is_taken(
    api: Flask, database: Database, admin: Program, made: SampleApp
) -> None:
    admin.get("/whoami")
    before = snapshot(database)
    tried = 0

    for one in views(api):
        body = one.endpoint.body
        if body is None:
            continue
        known = {field.encode_name for field in msgspec.structs.fields(body)}
        unwritable = {*answer_fields(one), "id", "state"} - known
        sent = dict.fromkeys(unwritable, 1)
        answer = call(admin, one, VALUES | made.ids, sent)

        errors = answer.get_json().get("errors", ())
        refused = {error["pointer"] for error in errors if "unknown field" in error["detail"]}
        assert (answer.status_code, refused) == (400, {f"/{name}" for name in unwritable}), one.name
        tried += len(unwritable)

    assert tried > 50
    assert snapshot(database) == before


def test_a_state_that_is_sent_back_is_ignored(admin: Program) -> None:
    path, any_version = "/jobs/reports/nightly", {"If-Match": "*"}
    admin.put(path, {"handler": "report"}, headers={"If-None-Match": "*"})
    job = admin.get(path).get_json()
    forged = dict.fromkeys(job["state"], 1) | {"declared_in": "file", "stop_reason": "forged"}

    for method in ("PUT", "PATCH"):
        body = job | {"state": forged, "warnings": ["forged"], "cancelled": 7}
        answer = admin.call(method, path, json=body, headers=any_version)

        assert answer.status_code == 200, answer.text
        assert admin.get(path).get_json() == job


def test_no_answer_holds_a_secret(
    api: Flask, database: Database, clock: Clock, made: SampleApp
) -> None:
    readers = [Scope.READ, Scope.LOGS]
    reader = Program(api, make_token(database, clock, scopes=readers, name="reader"))
    admin = Program(api, make_token(database, clock, name="everything"))
    read = 0

    for one in views(api):
        if one.endpoint.method != "GET":
            continue
        for program, sealed in ((reader, (URL, SIGN, HASH)), (admin, (SIGN, HASH))):
            answer = call(program, one, VALUES | made.ids)
            shown = answer.text
            read += answer.status_code == 200
            assert [word for word in sealed if word in shown] == [], one.name
            assert program.token not in shown, one.name

    assert read > 40


def test_who_may_change_a_job_reads_where_its_webhooks_go(admin: Program, made: SampleApp) -> None:
    """Else the test above would pass if nothing was sealed in the rows."""
    job = admin.get("/jobs/reports/job").get_json()

    assert URL in job["alarm"]["webhook"]
    assert URL in job["webhook"]["url"]
    assert SIGN not in json.dumps(job)


@pytest.mark.parametrize("name", ["viewer", "admin"])
def test_no_page_holds_a_secret(app: Flask, rows: Rows, made: SampleApp, name: str) -> None:
    visit: Visit = signed_in(app, name)
    hashes = rows.database.read(lambda s: [row.token_hash for row in s.query(SignIn)])
    read = 0

    with app.test_request_context():
        paths = {
            app.url_for(rule.endpoint, **made.values(set(rule.arguments), script=is_script))
            for rule in app.url_map.iter_rules()
            for is_script in (False, True)
            if "GET" in (rule.methods or set())
        }
    for path in sorted(paths):
        answer = visit.get(path)
        read += answer.status_code == 200
        sealed = (SIGN, HASH, *hashes, *([URL] if name == "viewer" else []))
        assert [word for word in sealed if word in answer.text] == [], path

    assert read > 25
