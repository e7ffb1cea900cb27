"""Jobs by the API: read, made, changed under conditions, deleted, started, stopped."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import select

from tests.support.api import Program
from tests.support.console import Clock
from tests.support.stored_rows import Rows
from warren.resources.operation import Scope
from warren.scheduler.jobs.spec import FIELDS
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.models import App, Job

JOB = {
    "handler": "report.daily",
    "schedule": {"cron": "0 0 2 * * ?", "timezone": "Asia/Shanghai"},
    "param": "x",
    "retries": 2,
    "alarm": {"emails": ["ops@example.com"], "webhook": "https://hooks.example.com/secret"},
    "children": [],
}
NEW = {"If-None-Match": "*"}
PATH = "/jobs/reports/nightly"


def made(program: Program, path: str = PATH, **more: Any) -> str:
    answer = program.put(path, JOB | more, headers=NEW)
    assert answer.status_code == 201, answer.text
    tag: str = answer.headers["ETag"]
    return tag


def test_a_job_is_made_where_there_is_none(admin: Program) -> None:
    answer = admin.put(PATH, JOB, headers=NEW)

    assert answer.status_code == 201
    assert answer.headers["Location"] == "/api/v1/jobs/reports/nightly"
    job = answer.get_json()
    del job["warnings"]
    assert (job["app"], job["name"], job["enabled"]) == ("reports", "nightly", False)
    assert job["schedule"] == JOB["schedule"]
    assert admin.get(PATH).get_json() == job
    assert admin.get(f"/jobs/by-id/{job['state']['id']}").get_json() == job


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("pay\u200broll", "U+200B"),
        ("\u202elorap", "U+202E"),
        ("pay\u2066roll", "U+2066"),
        ("\ufeffpay", "U+FEFF"),
    ],
)
def test_no_new_job_has_a_name_with_invisible_characters(
    admin: Program, name: str, code: str
) -> None:
    words = f"expected name to have visible characters only, it has {code}"
    job = JOB | {"app": "reports", "name": name}

    put = admin.put(f"/jobs/reports/{quote(name)}", JOB, headers=NEW)
    applied = admin.post("/apply", {"jobs": [job]})

    assert (put.status_code, applied.status_code) == (422, 422)
    assert words in put.text
    assert applied.get_json()["errors"][0]["detail"] == words


def test_a_stored_job_with_such_a_name_can_be_changed(admin: Program, rows: Rows) -> None:
    name = "pay\u200broll"
    rows.job(name)
    path = f"/jobs/reports/{quote(name)}"

    change = {"json": {"timeout": 5}, "headers": {"If-Match": "*"}}
    assert admin.call("PATCH", path, **change).status_code == 200
    assert admin.put("/jobs/reports/%E5%B7%A5%E8%B5%84", JOB, headers=NEW).status_code == 201


def test_what_was_read_can_be_sent_as_it_is(admin: Program) -> None:
    made(admin, enabled=True)
    read = admin.get(PATH)

    answer = admin.put(PATH, read.get_json(), headers={"If-Match": read.headers["ETag"]})

    assert answer.status_code == 200
    assert answer.headers["ETag"] == read.headers["ETag"]
    saved = answer.get_json()
    assert saved == read.get_json() | {"warnings": saved["warnings"]}
    again = admin.put(PATH, saved, headers={"If-Match": read.headers["ETag"]})
    assert again.status_code == 200


def test_a_saved_job_whose_handler_no_online_executor_has_is_answered_with_a_warning(
    admin: Program, rows: Rows, clock: Clock
) -> None:
    rows.executor("a", clock.now, json.dumps({"handlers": ["report.daily", "mail.send"]}))

    made = admin.put(PATH, JOB | {"handler": "report.dialy"}, headers=NEW)
    mended = admin.put(PATH, JOB, headers={"If-Match": "*"})

    assert made.status_code == 201
    assert made.get_json()["warnings"] == [
        "no online executor has 'report.dialy'; did you mean 'report.daily'?"
    ]
    assert mended.get_json()["warnings"] == []
    assert "warnings" not in admin.get(PATH).get_json()


@pytest.mark.parametrize(
    ("age_ms", "why"),
    [
        (60_000, "no executor of app reports is online"),
        (0, "old-one does not report all its handlers"),
    ],
)
def test_a_handler_that_cannot_be_checked_is_told_to_be_unchecked(
    admin: Program, rows: Rows, clock: Clock, age_ms: int, why: str
) -> None:
    rows.executor("new-one", clock.now - age_ms, json.dumps({"handlers": ["report.daily"]}))
    rows.executor("old-one", clock.now - age_ms, "{}")

    made = admin.put(PATH, JOB | {"handler": "report.dialy"}, headers=NEW)

    assert made.get_json()["warnings"] == [f"its handler and param were not checked: {why}"]


def test_numbers_of_weekdays_are_answered_in_words(
    admin: Program, rows: Rows, clock: Clock
) -> None:
    rows.executor("a", clock.now, json.dumps({"handlers": ["report.daily"]}))
    schedule = {"cron": "0 0 2 ? * 1-5"}

    made = admin.put(PATH, JOB | {"schedule": schedule}, headers=NEW)

    assert made.get_json()["warnings"] == ["1-5 is Sunday to Thursday; did you mean MON-FRI?"]


def test_every_declared_field_of_a_job_is_told(admin: Program) -> None:
    made(admin)

    job = admin.get(PATH).get_json()

    groups = {field.kind.group or name for name, field in FIELDS.items()}
    assert set(job) == groups | {"state"}


def test_a_change_needs_the_version_that_was_seen(admin: Program) -> None:
    tag = made(admin)

    assert admin.put(PATH, JOB).status_code == 428
    taken = admin.put(PATH, JOB, headers=NEW)
    assert taken.status_code == 412
    assert taken.get_json()["type"] == "urn:warren:problem:job_name_taken"
    assert admin.put(PATH, JOB | {"param": "y"}, headers={"If-Match": tag}).status_code == 200
    late = admin.put(PATH, JOB | {"param": "z"}, headers={"If-Match": tag})

    assert late.status_code == 412
    assert late.get_json()["type"] == "urn:warren:problem:job_changed"
    assert admin.get(PATH).get_json()["param"] == "y"
    assert admin.put(PATH, JOB, headers={"If-Match": "*"}).status_code == 200


def test_a_job_that_is_not_there_matches_no_version(admin: Program) -> None:
    for method in ("PUT", "PATCH"):
        answer = admin.call(method, PATH, json=JOB, headers={"If-Match": '"x"'})
        assert answer.status_code == 412, answer.text
        assert answer.get_json()["type"] == "urn:warren:problem:no_job_in_app"


def test_who_has_the_version_is_told_so(admin: Program) -> None:
    tag = made(admin)

    answer = admin.get(PATH, headers={"If-None-Match": tag})

    assert (answer.status_code, answer.data) == (304, b"")


def test_a_patch_changes_what_it_names(admin: Program) -> None:
    tag = made(admin, enabled=True)
    patch = {"param": None, "alarm": {"webhook": None}, "retries": 3}

    answer = admin.call(
        "PATCH",
        PATH,
        json=patch,
        headers={"If-Match": tag, "Content-Type": "application/merge-patch+json"},
    )

    job = answer.get_json()
    assert answer.status_code == 200, answer.text
    assert (job["param"], job["retries"], job["enabled"]) == ("", 3, True)
    assert job["alarm"] == {"emails": ["ops@example.com"]}


def test_a_patch_keeps_the_webhook_and_leaves_alone_who_stopped_it_meanwhile(
    admin: Program,
) -> None:
    tag = made(admin, enabled=True)
    admin.post(f"{PATH}/stop")

    answer = admin.call("PATCH", PATH, json={"retries": 1}, headers={"If-Match": tag})

    job = answer.get_json()
    assert (job["enabled"], job["alarm"]) == (False, JOB["alarm"])


@pytest.mark.parametrize(
    ("said", "process"),
    [
        ({"process": "fresh"}, "fresh"),
        ({"fresh_process": True}, "fresh"),
        ({"fresh_process": False}, "job"),
        ({"process": "job", "fresh_process": False}, "job"),
        ({"process": None}, ""),
        ({"fresh_process": None}, ""),
        ({"param": "y"}, "handler"),
    ],
)
def test_a_patch_may_say_process_by_its_older_name(
    admin: Program, said: dict[str, Any], process: str
) -> None:
    tag = made(admin, process="handler")

    answer = admin.call("PATCH", PATH, json=said, headers={"If-Match": tag})

    assert answer.status_code == 200, answer.text
    assert (answer.get_json()["process"], "fresh_process" in answer.get_json()) == (process, False)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"process": "handler", "fresh_process": False},
            "process 'handler' contradicts fresh_process false, which means process 'job'",
        ),
        ({"process": "thread"}, "unknown process 'thread'; expected job, handler or fresh"),
        (
            {"process": "handler", "handler": None, "script": {"language": "shell", "source": "x"}},
            (
                "expected process of a script to be job or fresh, since a script has no handler to "
                "share a process with, got: 'handler'"
            ),
        ),
    ],
)
def test_a_wrong_process_is_one_line_at_its_place(
    admin: Program, said: dict[str, Any], words: str
) -> None:
    answer = admin.put(PATH, JOB | said, headers=NEW)

    [error] = answer.get_json()["errors"]
    assert answer.status_code == 422
    assert (error["pointer"], error["detail"]) == ("/process", words)


@pytest.mark.parametrize("media", ["", "application/json", "application/merge-patch+json"])
def test_a_patch_without_a_body_changes_nothing(admin: Program, media: str) -> None:
    tag = made(admin)
    before = admin.get(PATH).get_json()

    answer = admin.call("PATCH", PATH, headers={"If-Match": tag, "Content-Type": media})

    assert answer.status_code == 200, answer.text
    assert answer.get_json() == before | {"warnings": answer.get_json()["warnings"]}


def test_a_webhook_is_a_secret_to_who_only_reads(admin: Program, program: Any) -> None:
    made(admin)

    reader = program(scopes=[Scope.READ])

    assert reader.get(PATH).get_json()["alarm"]["webhook"] == "https://hooks.example.com/…"
    assert "secret" not in reader.get("/jobs").text


def test_all_problems_are_told_at_once_with_their_places(admin: Program) -> None:
    wrong = {
        "handler": "",
        "schedule": {"cron": "0 0 25 * * ?", "timezone": "Nowhere/Town"},
        "route": "FURST",
        "timeout": -1,
        "alarm": {"emails": ["nobody"]},
        "children": ["a/b/c", "unknown"],
    }

    answer = admin.put(PATH, wrong, headers=NEW)

    assert answer.status_code == 422
    assert answer.content_type == "application/problem+json"
    problem = answer.get_json()
    places = {error["pointer"] for error in problem["errors"]}
    assert places >= {
        "/handler",
        "/schedule",
        "/schedule/timezone",
        "/route",
        "/timeout",
        "/alarm/emails",
        "/children",
    }
    assert (problem["status"], problem["title"]) == (422, "Unprocessable Content")


def test_wrong_types_are_told_at_once_with_their_places(admin: Program) -> None:
    wrong = {
        "handler": 1,
        "timeout": "30",
        "children": ["a", 2],
        "alarm": {"emails": "x"},
        "schedule": {"every": 1, "cron": "x"},
    }

    answer = admin.put(PATH, wrong, headers=NEW)

    assert answer.status_code == 422
    assert {error["pointer"] for error in answer.get_json()["errors"]} == {
        "/handler",
        "/timeout",
        "/children/1",
        "/alarm/emails",
        "/schedule",
    }


@pytest.mark.parametrize(
    ("schedule", "status"),
    [({"every": 1, "delay": 1}, 422), ({}, 422), ("none", 201), (None, 201), ("often", 422)],
)
def test_a_schedule_is_one_of_its_kinds(admin: Program, schedule: Any, status: int) -> None:
    answer = admin.put(PATH, JOB | {"schedule": schedule}, headers=NEW)

    assert answer.status_code == status, answer.text


def test_unknown_fields_are_refused_by_name(admin: Program) -> None:
    answer = admin.put(PATH, JOB | {"tiemout": 1, "script": {"languages": "x"}}, headers=NEW)

    assert answer.status_code == 400
    pointers = [error["pointer"] for error in answer.get_json()["errors"]]
    assert sorted(pointers) == ["/script/languages", "/tiemout"]


def test_a_job_is_found_by_its_name_alone(admin: Program, program: Any, rows: Rows) -> None:
    rows.job("daily")
    rows.job("twice")
    rows.job("twice", app="mails")

    found = admin.get("/jobs:find?name=daily").get_json()
    refused = {
        name: admin.get(f"/jobs:find?name={name}").get_json()["detail"]
        for name in ("dialy", "twice", "nothing", "")
    }

    assert found == {"app": "reports", "name": "daily"}
    assert admin.get("/jobs:find?name=mails/twice").get_json() == {"app": "mails", "name": "twice"}
    assert refused == {
        "dialy": "no job named 'dialy', did you mean 'daily'?",
        "twice": refused["twice"],
        "nothing": "no job named 'nothing'",
        "": "expected NAME or APP/NAME",
    }
    assert "twice" in refused["twice"]


def test_a_script_needs_the_scope_for_scripts(program: Any) -> None:
    script = {"script": {"language": "shell", "source": "echo"}}
    writer = program(scopes=[Scope.WRITE, Scope.READ])

    refused = writer.put(PATH, script, headers=NEW)
    answer = program(scopes=[Scope.WRITE, Scope.SCRIPTS]).put(PATH, script, headers=NEW)

    assert refused.status_code == 403, refused.text
    assert answer.status_code == 201, answer.text
    [version] = writer.get(f"{PATH}/scripts").get_json()["items"]
    assert (version["is_current"], version["bytes"]) == (True, 4)


def test_versions_of_scripts_have_an_id_and_a_number_in_their_job(program: Any) -> None:
    writer = program(scopes=[Scope.WRITE, Scope.SCRIPTS, Scope.READ])
    saved = [("other", "echo", NEW), ("nightly", "echo", NEW)]
    saved.append(("nightly", "date", {"If-Match": "*"}))
    for name, source, headers in saved:
        script = {"script": {"language": "shell", "source": source}}
        answer = writer.put(f"/jobs/reports/{name}", script, headers=headers)
        assert answer.status_code in {200, 201}, answer.text

    listed = writer.get(f"{PATH}/scripts").get_json()["items"]
    assert [version["number"] for version in listed] == [2, 1]
    state = writer.get(PATH).get_json()["state"]
    assert (state["script_version"], state["script_number"]) == (listed[0]["id"], 2)


def test_a_job_is_renamed_by_its_body(admin: Program) -> None:
    tag = made(admin)

    admin.put(PATH, JOB | {"name": "daily"}, headers={"If-Match": tag})

    assert admin.get(PATH).status_code == 404
    assert admin.get("/jobs/reports/daily").status_code == 200


def test_a_path_and_a_body_that_differ_are_refused(admin: Program) -> None:
    other_app = admin.put(PATH, JOB | {"app": "mails"}, headers=NEW)
    other_name = admin.put(PATH, JOB | {"name": "other"}, headers=NEW)

    assert (other_app.status_code, other_name.status_code) == (422, 422)


def test_a_job_is_deleted_as_it_was_seen(admin: Program) -> None:
    tag = made(admin)

    assert admin.call("DELETE", PATH).status_code == 428
    assert admin.call("DELETE", PATH, headers={"If-Match": '"other"'}).status_code == 412
    assert admin.call("DELETE", PATH, headers={"If-Match": tag}).status_code == 204
    assert admin.call("DELETE", PATH, headers={"If-Match": tag}).status_code == 404


def test_starting_twice_is_starting_once(admin: Program) -> None:
    made(admin)

    assert admin.post(f"{PATH}/start").get_json() == {"changed": True}
    assert admin.post(f"{PATH}/start").get_json() == {"changed": False}
    assert admin.get(PATH).get_json()["state"]["next_fire_at"]
    assert admin.post(f"{PATH}/stop").get_json() == {"changed": True}


def test_a_save_and_a_stop_tell_how_many_planned_runs_they_cancel(
    admin: Program, rows: Rows, clock: Clock
) -> None:
    each_second = {"enabled": True, "schedule": {"cron": "* * * * * ?"}}
    made(admin, **each_second)
    start = clock.now // 10_000 * 10_000 + 10_000
    job_id = admin.get(PATH).get_json()["state"]["id"]
    for second in range(4):
        rows.run(job_id, start + second * 1_000)

    half = {"schedule": {"cron": "0/2 * * * * ?"}}
    saved = admin.call("PATCH", PATH, json=half, headers={"If-Match": "*"}).get_json()
    again = admin.put(PATH, saved, headers={"If-Match": "*"}).get_json()
    stopped = admin.post(f"{PATH}/stop").get_json()

    assert saved["cancelled"] == 2
    assert "cancelled" not in again
    assert stopped == {"changed": True, "cancelled": 2}


def test_a_secret_can_be_given_and_never_read(admin: Program, rows: Rows) -> None:
    robot = {"webhook": "https://oapi.dingtalk.com/robot/send?access_token=1", "secret": "SEChush"}
    made(admin, alarm=robot)

    def stored() -> list[str | None]:
        return rows.database.read(lambda session: list(session.scalars(select(Job.alarm_secret))))

    first = stored()
    read = admin.get(PATH)
    again = admin.put(PATH, read.get_json(), headers={"If-Match": "*"})
    patched = admin.call("PATCH", PATH, json={"param": "y"}, headers={"If-Match": "*"})
    kept = stored()
    file = admin.get("/export")
    entries = rows.database.read(lambda s: audit_log.listing(s, AuditFilter(limit=20)))
    log = [(entry.before, entry.after) for entry in entries]
    other = {"alarm": {"webhook": "https://oapi.dingtalk.com/robot/send?access_token=2"}}
    admin.call("PATCH", PATH, json=other, headers={"If-Match": "*"})
    refused = admin.put("/jobs/reports/x", JOB | {"alarm": {"secret": "s"}}, headers=NEW)

    assert (first, kept, stored()) == (["SEChush"], ["SEChush"], [None])
    answers = [read, again, patched, file]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert "SEChush" not in "".join(answer.text for answer in answers) + str(log)
    assert (refused.status_code, "/alarm/secret" in refused.text) == (422, True)


def test_a_secret_that_is_given_again_stays_with_another_webhook(
    admin: Program, rows: Rows
) -> None:
    robot = {"webhook": "https://oapi.dingtalk.com/robot/send?access_token=1", "secret": "SEChush"}
    made(admin, alarm=robot)

    for alarm in (robot | {"webhook": f"{robot['webhook']}2"}, robot | {"style": "dingtalk"}):
        answer = admin.put(PATH, JOB | {"alarm": alarm}, headers={"If-Match": "*"})
        assert answer.status_code == 200, answer.text
        stored = rows.database.read(lambda session: session.scalars(select(Job.alarm_secret)).one())
        assert stored == "SEChush"


def test_a_secret_goes_when_nothing_is_signed_with_it_any_more(admin: Program, rows: Rows) -> None:
    url = "https://robots.example.com/1"
    robot = {"webhook": url, "style": "feishu", "secret": "SEChush"}

    def apply(alarm: dict[str, str]) -> str:
        job = JOB | {"name": "nightly", "app": "reports", "alarm": alarm}
        file = {"apps": [{"name": "reports", "alarm": alarm}], "jobs": [job]}
        answer = admin.post("/apply", file)
        assert answer.status_code == 200, answer.text
        return answer.text

    for alarm in ({"webhook": url, "style": "slack"}, {"webhook": url}, {}):
        apply(robot)

        told = apply(alarm)

        for column in (Job.alarm_secret, App.alarm_secret):
            stored = rows.database.read(lambda s, c=column: list(s.scalars(select(c))))
            assert not any(stored), alarm
        assert "alarm secret: *** -> none" in told
        entries = rows.database.read(lambda s: audit_log.listing(s, AuditFilter(limit=2)))
        for entry in entries:
            before, after = json.loads(entry.before or ""), json.loads(entry.after or "")
            assert (before["alarm_secret"], after["alarm_secret"] or "") == ("***", ""), entry
            assert "SEC" not in f"{before}{after}"


def test_the_next_due_times_are_told(admin: Program) -> None:
    made(admin)

    answer = admin.get(f"{PATH}/next", query_string={"count": 2}).get_json()

    assert len(answer["fires_at"]) == 2
    assert all(fire.endswith("18:00:00.000+00:00") for fire in answer["fires_at"])
    assert answer["clock_changes"] == []


def test_a_list_goes_on_by_its_cursor_and_no_other_lists(admin: Program, rows: Rows) -> None:
    rows.jobs(5)
    rows.job("elsewhere", "mails")

    first = admin.get("/jobs?app=reports&limit=2").get_json()
    second = admin.get(f"/jobs?app=reports&limit=2&cursor={first['next']}").get_json()
    third = admin.get(f"/jobs?app=reports&limit=3&cursor={second['next']}").get_json()
    foreign = admin.get(f"/jobs?app=mails&limit=2&cursor={first['next']}")
    garbled = admin.get("/jobs?cursor=AAAA")

    names = [job["name"] for page in (first, second, third) for job in page["items"]]
    assert names == [f"one-{number}" for number in range(5)]
    assert third["next"] is None
    assert (foreign.status_code, garbled.status_code) == (422, 422)


def test_jobs_are_found_by_parts_of_their_names(admin: Program) -> None:
    made(admin)
    made(admin, "/jobs/reports/weekly", handler="other", author="Ann")

    def found(query: str) -> list[str]:
        return [job["name"] for job in admin.get(f"/jobs?{query}").get_json()["items"]]

    assert found("q=NIGHT") == ["nightly"]
    assert found("handler=oth") == ["weekly"]
    assert found("author=ann") == ["weekly"]
    assert found("enabled=true") == []
    assert found("app=mails") == []


@pytest.mark.parametrize(
    "path", ["/jobs?q=%00", "/jobs?q=n%00", "/jobs?handler=%00", "/jobs?tag=%00", "/ledger?q=%00"]
)
def test_a_search_for_what_no_text_has_finds_nothing(admin: Program, path: str) -> None:
    made(admin, tags=["night"])

    assert admin.get(path).get_json()["items"] == []


def test_a_token_for_some_jobs_lists_no_other(rows: Rows, program: Any) -> None:
    mine = rows.job("mine")
    rows.job("other")

    caller = program(job_ids=[mine])

    assert [job["name"] for job in caller.get("/jobs").get_json()["items"]] == ["mine"]
    assert caller.get("/jobs/reports/mine").status_code == 200
    assert caller.get("/jobs/reports/other").status_code == 404
    assert caller.get("/ledger").get_json()["items"][0]["job"] == "mine"


def test_the_trail_names_the_token(admin: Program, rows: Rows) -> None:
    made(admin)

    [entry] = rows.database.read(
        lambda session: audit_log.listing(session, AuditFilter(kind="job"))
    )
    assert (entry.who, entry.origin) == ("token:token-1", "127.0.0.1")


@pytest.mark.parametrize("name", ["a b", "äö", "50 %", "a?b", "..."])
def test_any_name_of_a_job_fits_into_a_path(admin: Program, name: str) -> None:
    path = f"/jobs/reports/{quote(name, safe='')}"
    made(admin, path)

    assert admin.get(path).get_json()["name"] == name


def test_retries_have_a_long_form_that_patches_understand(admin: Program) -> None:
    long = {"times": 5, "delay": 10, "backoff": "exponential", "most": 600, "jitter": 0.2}
    body = {name: value for name, value in JOB.items() if name != "retries"} | {"retry": long}

    admin.put(PATH, body, headers=NEW)
    made = admin.get(PATH).get_json()
    patch = {"retry": {"times": 7, "most": None}}
    merge = {"If-Match": "*", "Content-Type": "application/merge-patch+json"}
    changed = admin.call("PATCH", PATH, json=patch, headers=merge).get_json()

    assert (made["retries"], made["retry_delay"]) == (5, 10)
    assert made["retry"] == {"backoff": "exponential", "most": 600, "jitter": 0.2}
    assert (changed["retries"], changed["retry_delay"]) == (7, 10)
    assert changed["retry"] == {"backoff": "exponential", "jitter": 0.2}


@pytest.mark.parametrize(
    ("retry", "pointer", "words"),
    [
        ({"times": 3}, "/retry/times", "'retries' 2 contradicts 'times' 3 of 'retry'"),
        (
            {"delay": 60, "most": 59},
            "/retry/most",
            "expected retry_most to be at least the delay of 60 s, got: 59",
        ),
        (
            {"jitter": 2},
            "/retry/jitter",
            "expected retry_jitter to be a number from 0 to 1 with up to two decimals, got: 2.0",
        ),
    ],
)
def test_a_retry_that_makes_no_sense_is_refused_where_it_is(
    admin: Program, retry: dict[str, int], pointer: str, words: str
) -> None:
    answer = admin.put(PATH, JOB | {"retry": retry}, headers=NEW)

    assert answer.status_code == 422
    [error] = answer.get_json()["errors"]
    assert (error["pointer"], error["detail"]) == (pointer, words)


class TestEditOfMany:
    def test_a_filter_is_previewed_then_edited_then_undone(
        self, admin: Program, rows: Rows
    ) -> None:
        for name in ("load-a", "load-b", "other"):
            rows.job(name)
        asked = {"field": "timeout", "value": 600, "q": "load"}

        ahead = admin.post("/jobs:edit", asked | {"dry_run": True}).get_json()
        seen = {job["job"]: job["version"] for job in ahead["jobs"]}
        done = admin.post("/jobs:edit", asked | {"seen": seen}).get_json()
        stale = admin.post("/jobs:edit", asked | {"value": 5, "seen": seen})
        undone = admin.post("/jobs:undo-edit", {"edit": done["edit"]}).get_json()

        assert ahead["edit"] is None
        assert [job["changes"] for job in ahead["jobs"]] == [["timeout: 0 -> 600"]] * 2
        assert [job["job"] for job in done["jobs"]] == ["reports/load-a", "reports/load-b"]
        assert stale.status_code == 412
        assert len(stale.get_json()["errors"]) == 2
        assert (len(undone["jobs"]), undone["left"]) == (2, [])
        assert admin.get("/jobs/reports/load-a").get_json()["timeout"] == 0

    @pytest.mark.parametrize(
        ("more", "status", "words"),
        [
            ({}, 422, "expected jobs, a filter, or all"),
            ({"jobs": ["gone"]}, 404, "no job named 'gone'"),
            ({"jobs": ["a"], "state": "failing"}, 422, "jobs or a filter, got both"),
            ({"jobs": ["a"], "all": True}, 422, "jobs or a filter, got both"),
            ({"all": True, "value": "x"}, 422, "expected timeout to be"),
            ({"all": True, "value": -1}, 422, "expected timeout to be"),
            ({"all": True, "mode": "add"}, 422, "is not a list"),
            ({"all": True, "field": "name"}, 422, "one of alarm_emails"),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, admin: Program, rows: Rows, more: dict[str, Any], status: int, words: str
    ) -> None:
        rows.job("a")

        answer = admin.post("/jobs:edit", {"field": "timeout", "value": 1} | more)

        assert answer.status_code == status, answer.text
        assert words in answer.text

    def test_a_token_edits_only_what_it_sees_and_only_with_its_scope(
        self, program: Any, rows: Rows
    ) -> None:
        rows.job("mine")
        rows.job("theirs", "mails")
        limited = program("operator", scopes=[Scope.READ, Scope.WRITE])
        reader = program("operator", scopes=[Scope.READ])
        asked = {"field": "author", "value": "ann", "all": True}

        done = limited.post("/jobs:edit", asked)

        assert [job["job"] for job in done.get_json()["jobs"]] == ["reports/mine"]
        assert reader.post("/jobs:edit", asked).status_code == 403
        assert limited.post("/jobs:undo-edit", {"edit": 10**6}).status_code == 404


@pytest.mark.parametrize(
    ("wrong", "places"),
    [
        ({"timeout": "x", "retries": 9_999}, ["/timeout", "/retries"]),
        ({"tiemout": 5, "retries": 9_999}, ["/tiemout", "/retries"]),
        ({"timeout": "x", "handler": ""}, ["/timeout", "/handler"]),
        ({"timeout": "x", "limits": ["nothing"]}, ["/timeout", "/limits"]),
        ({"tags": [1, "a", 2]}, ["/tags/0", "/tags/2"]),
        ({"retry": {"times": "x", "jitter": 7}}, ["/retry/times", "/retry/jitter"]),
        ({"alarm": {"webhook": 5, "style": "slack"}}, ["/alarm/webhook"]),
        ({"schedule": {"cron": 5, "window": "x"}}, ["/schedule/cron", "/schedule/window"]),
        ({"schedule": {"cron": 5, "window": "08:00-20:00"}}, ["/schedule/cron"]),
        ({"handler": None, "script": {"language": 5}}, ["/script/language"]),
        ({"name": "other", "author": " x "}, ["/name", "/author"]),
        ({"schedule": {"cron": "0 0 2 * * ?", "calendar": "cn"}, "timeout": -1}, None),
    ],
)
def test_wrong_types_and_broken_rules_are_told_together(
    admin: Program, wrong: dict[str, Any], places: list[str] | None
) -> None:
    answer = admin.put(PATH, {"handler": "report.daily"} | wrong, headers=NEW)

    assert answer.status_code in (400, 422)
    told = [error["pointer"] for error in answer.get_json()["errors"]]
    assert sorted(told) == sorted(places or ["/timeout", "/schedule/calendar"])


def test_a_patch_tells_wrong_types_and_broken_rules_together(admin: Program) -> None:
    made(admin)

    answer = admin.call(
        "PATCH", PATH, json={"timeout": "x", "retries": 9_999}, headers={"If-Match": "*"}
    )

    assert answer.status_code == 422
    told = {error["pointer"] for error in answer.get_json()["errors"]}
    assert told == {"/timeout", "/retries"}


def test_misspelt_zones_and_apps_are_answered_with_the_nearest(admin: Program) -> None:
    schedule = {"every": 60, "timezone": "Asia/Shangai"}

    answer = admin.put("/jobs/report/nightly", JOB | {"schedule": schedule}, headers=NEW)

    told = {error["pointer"]: error["detail"] for error in answer.get_json()["errors"]}
    assert told["/app"] == "unknown app 'report', did you mean 'reports'?"
    assert told["/schedule/timezone"].endswith(", did you mean 'Asia/Shanghai'?")


def test_durations_and_misfires_may_be_written_as_in_a_job_file(admin: Program) -> None:
    written = {
        "handler": "report.daily",
        "schedule": {"every": "5m"},
        "timeout": "10m",
        "late_limit": "2m",
        "retry": {"times": 3, "delay": "5s", "backoff": "exponential", "most": "1h"},
        "misfire": {"catch_up": {"within": "1h", "most": 5}},
    }

    put = admin.put(PATH, written, headers=NEW).get_json()
    patched = admin.call("PATCH", PATH, json={"timeout": "90s"}, headers={"If-Match": "*"})
    in_file = {"name": "nightly", "app": "reports", "timeout": "90s"}
    applied = admin.post("/apply", {"jobs": [written | in_file]})

    assert (put["schedule"], put["timeout"], put["late_limit"]) == ({"every": 300}, 600, 120)
    assert (put["retry_delay"], put["retry"]["most"]) == (5, 3_600)
    assert (put["misfire"], put["catch_up"]) == ("CATCH_UP", {"within": 3_600, "most": 5})
    assert patched.get_json()["timeout"] == 90
    assert (applied.get_json()["changes"], applied.get_json()["unchanged"]) == ([], 1)


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"timeout": "10"}, "/timeout"),
        ({"timeout": "soon"}, "/timeout"),
        ({"retries": "5m"}, "/retries"),
        ({"misfire": {"catch_up": {"within": "soon"}}}, "/catch_up/within"),
        ({"misfire": {"catch_up": {}, "most": 1}}, "/misfire"),
    ],
)
def test_what_is_no_duration_of_a_job_file_is_refused(
    admin: Program, wrong: dict[str, Any], place: str
) -> None:
    answer = admin.put(PATH, JOB | wrong, headers=NEW)

    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.get_json()["errors"]] == [place]


def test_an_edit_of_many_jobs_may_say_a_duration_as_a_job_file_does(admin: Program) -> None:
    made(admin)

    edited = admin.post("/jobs:edit", {"field": "timeout", "value": "10m", "all": True})
    wrong = admin.post("/jobs:edit", {"field": "retries", "value": "10m", "all": True})

    assert edited.get_json()["jobs"][0]["changes"] == ["timeout: 0 -> 600"]
    assert wrong.status_code == 422
