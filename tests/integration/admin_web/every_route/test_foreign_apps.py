"""Whoever has not an app learns nothing of it: by id, by list, by filter, on no route there is."""

from typing import Any

import pytest
from flask import Flask

from tests.support.console import Clock, Visit, make_app, signed_in
from tests.support.sample_app import SampleApp, add_sample_app, dump
from tests.support.stored_rows import Rows
from warren.jobfile.export import job_file
from warren.sql.engine import Database

#: Stands in every text of the foreign app.
FOREIGN = "f0reign"
#: Fields of what belongs to no app: everybody may know the schedulers, and who has paused them.
OF_NO_APP = {"scheduler", "console", "failing-role", "paused-by", "pause-reason"}
#: What a form may say; each route takes of it what it knows.
EVERY_FIELD = {
    "name": "taken",
    "app": "mails",
    "handler": "taken",
    "schedule_kind": "NONE",
    "route": "FIRST",
    "block": "SERIAL_EXECUTION",
    "misfire": "DO_NOTHING",
    "delivery": "AT_MOST_ONCE",
    "concurrency": "1",
    "timeout": "0",
    "retries": "0",
    "retry_delay": "0",
    "source": "echo taken",
    "remark": "taken",
    "choice": "9",
    "is_sure": "y",
    "address": f"{FOREIGN}-executor",
    "param": "taken",
}


@pytest.fixture
def app(database: Database, clock: Clock) -> Flask:
    return make_app(database, clock, job_file=job_file)


@pytest.fixture
def theirs(rows: Rows, clock: Clock) -> SampleApp:
    def text(field: str) -> str:
        return field if field in OF_NO_APP else f"{FOREIGN}-{field}"

    return add_sample_app(rows, "mails", text, clock.now)


@pytest.fixture
def stranger(app: Flask, theirs: SampleApp) -> Visit:
    """Somebody who may do everything but administer, and has not the app."""
    return signed_in(app, "scripter")


def calls(app: Flask, theirs: SampleApp, method: str) -> list[tuple[str, bool]]:
    """Return each path that a method is good for, and whether it names something by its id."""
    found = []
    with app.test_request_context():
        for rule in app.url_map.iter_rules():
            if method not in (rule.methods or set()):
                continue
            for is_script in (False, True):
                values = theirs.values(set(rule.arguments), script=is_script)
                path = app.url_for(rule.endpoint, **values)
                has_id = any(name.endswith("_id") for name in rule.arguments)
                found.append((path, has_id and not path.startswith("/account")))
    return sorted(set(found))


def test_no_page_holds_a_row_of_a_foreign_app_and_no_id_leads_to_one(
    app: Flask, stranger: Visit, theirs: SampleApp
) -> None:
    paths = calls(app, theirs, "GET")
    assert len(paths) > 40

    for path, has_id in paths:
        answer = stranger.client.get(path)

        assert FOREIGN not in answer.text, path
        if has_id:
            # What only administrators may do is refused before anybody looks whether it is there.
            is_for_administrators = path.startswith(("/users", "/apps")) and (
                not path.endswith("/pause/ask")
            )
            assert answer.status_code == (403 if is_for_administrators else 404), path


def test_the_same_pages_hold_it_for_whoever_has_the_app(
    app: Flask, theirs: SampleApp, stranger: Visit
) -> None:
    """Else the test above would pass on empty pages."""
    owner = signed_in(app, "stranger")

    holding = [path for path, _ in calls(app, theirs, "GET") if FOREIGN in owner.get(path).text]

    ids = theirs.ids
    for page in (
        *("/", "/apps", "/executors", "/jobs", "/ledger", "/runs", "/timeline"),
        *(f"/jobs/{ids['job_id']}{tail}" for tail in ("", "/copy", "/edit", "/trigger", "/yaml")),
        *(f"/runs/{ids['run_id']}{tail}" for tail in ("", "/log", "/log/download")),
        *(f"/glue/{ids['script_id']}{tail}" for tail in ("", f"/versions/{ids['version_id']}")),
    ):
        assert page in holding


def test_no_filter_place_or_number_brings_it_up(
    stranger: Visit, rows: Rows, theirs: SampleApp, clock: Clock
) -> None:
    mine = add_sample_app(rows, "reports", lambda field: f"own-{field}", clock.now)
    own_script = f"/glue/{mine.ids['script_id']}"
    version = theirs.ids["version_id"]

    for path in (
        "/jobs?app=mails",
        "/jobs?name=f0",
        "/jobs?handler=f0",
        "/jobs?author=f0",
        "/jobs?name=%25",
        *(
            f"/jobs?order={order}"
            for order in ("name", "due", "newest", "ended", "took", "change", "share")
        ),
        "/jobs?after=1/a&order=name",
        "/jobs/new?app=mails",
        "/runs?app=mails",
        f"/runs?job=%23{theirs.ids['job_id']}",
        f"/runs?job={theirs.ids['job_id']}",
        f"/runs?job=mails/{FOREIGN[:3]}",
        *(f"/runs?status={status}" for status in ("failures", "open", "FAILED", "RUNNING")),
        "/runs?kind=PARENT",
        "/runs?address=f0",
        "/runs?before=9999999999999-9999999",
        "/runs/clear?app=mails",
        "/executors?app=mails",
        "/executors?address=f0",
        "/executors?after=a",
        "/ledger?app=mails",
        "/ledger?name=f0",
        "/ledger?range=30",
        "/apps?after=a",
        *(f"/?range={days}" for days in ("1", "7", "30", "custom")),
        f"{own_script}?run={theirs.ids['run_id']}",
        f"{own_script}/versions/{version}",
        f"{own_script}/compare?old={version}&new={version}",
        f"{own_script}/compare?old={mine.ids['version_id']}&new={version}",
    ):
        assert FOREIGN not in stranger.get(path).text, path


def test_no_form_changes_anything_of_a_foreign_app(
    app: Flask, stranger: Visit, rows: Rows, theirs: SampleApp
) -> None:
    before = dump(rows)

    for path, has_id in calls(app, theirs, "POST"):
        if path.startswith(("/login", "/logout", "/account")):
            continue
        for identity in ("id", "only"):
            form: dict[str, Any] = EVERY_FIELD | {
                identity: str(theirs.ids["job_id"]),
                "version": str(theirs.ids["version_id"]),
                "based_on": str(theirs.ids["version_id"]),
                "children": f"mails/{FOREIGN}-child",
            }
            answer = stranger.post(path, form)

            assert FOREIGN not in answer.text.replace(f"mails/{FOREIGN}-child", ""), path
            assert answer.status_code < 500, path
            if has_id:
                assert answer.status_code in (403, 404), path
        assert dump(rows) == before, path


def test_a_job_is_neither_made_in_nor_moved_to_a_foreign_app(
    stranger: Visit, rows: Rows, theirs: SampleApp, clock: Clock
) -> None:
    own = rows.job("own", "reports", handler="h")
    before = dump(rows)

    made = stranger.post("/jobs/create", EVERY_FIELD)
    stranger.post(f"/jobs/{own}/save", EVERY_FIELD | {"name": "own", "handler": "h", "seen": "x"})
    copied = stranger.post(f"/jobs/{own}/copy/create", EVERY_FIELD)

    assert (made.status_code, copied.status_code) == (422, 422)
    assert dump(rows) == before


def test_a_foreign_job_cannot_become_a_child(
    stranger: Visit, rows: Rows, theirs: SampleApp, clock: Clock
) -> None:
    before = dump(rows)
    form = EVERY_FIELD | {"app": "reports"}

    by_name = stranger.post("/jobs/create", form | {"children": f"mails/{FOREIGN}-child"})
    by_id = stranger.post("/jobs/create", form | {"children": str(theirs.ids["job_id"])})

    assert (by_name.status_code, by_id.status_code) == (422, 422)
    assert dump(rows) == before


def test_a_version_of_a_foreign_script_is_not_restored_into_an_own_one(
    stranger: Visit, rows: Rows, theirs: SampleApp, clock: Clock
) -> None:
    mine = add_sample_app(rows, "reports", lambda field: f"own-{field}", clock.now)
    before = dump(rows)

    answer = stranger.post(
        f"/glue/{mine.ids['script_id']}/restore",
        {"version": str(theirs.ids["version_id"]), "based_on": str(mine.ids["version_id"])},
    )

    assert answer.status_code == 404
    assert dump(rows) == before
