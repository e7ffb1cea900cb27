"""Calendars by the API: a new version, a year, and the options of a job's schedule."""

import pytest

from tests.support.api import Program

BODY = {"weekend": ["SAT", "SUN"], "days": {"2030-03-06": "off Typhoon"}, "until": "2031-12-31"}
NEW = {"If-None-Match": "*"}
SCHEDULE = {
    "cron": "0 0 9 * * ?",
    "calendar": "acme",
    "on_holiday": "previous",
    "window": "08:00-20:00",
    "jitter": "5m",
    "from": "2030-01-01",
    "until": "2031-06-30",
    "gap": "run_after",
}


def test_a_calendar_is_stored_once_and_shown(admin: Program) -> None:
    dry = admin.put("/calendars/acme?dry_run=true", BODY).get_json()
    stored = admin.put("/calendars/acme", BODY).get_json()
    again = admin.put("/calendars/acme", BODY).get_json()

    assert [one["version"] for one in (dry, stored, again)] == [1, 1, 0]
    [listed] = admin.get("/calendars").get_json()["items"]
    assert (listed["name"], listed["version"], listed["until"]) == ("acme", 1, "2031-12-31")
    year = admin.get("/calendars/acme?year=2030").get_json()
    assert year["days"] == [{"date": "2030-03-06", "working": False, "name": "Typhoon"}]
    assert admin.get("/calendars/acme?year=2035").status_code == 422
    assert admin.get("/calendars/other").status_code == 404


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"days": {"2030-13-01": "off"}}, "expected a date as YYYY-MM-DD"),
        ({"days": {"2030-12-01": "maybe"}}, "expected 2030-12-01 to be work, off"),
        ({"from": "holidays:XX"}, "unknown country"),
        ({"weekend": ["FUN"]}, "unknown weekend 'FUN'"),
    ],
)
def test_a_calendar_that_makes_no_sense_is_refused(
    admin: Program, body: dict[str, object], words: str
) -> None:
    refused = admin.put("/calendars/acme", body)

    assert refused.status_code == 422
    assert words in refused.text


def test_a_job_has_the_options_that_were_sent(admin: Program) -> None:
    admin.put("/calendars/acme", BODY)
    job = {
        "handler": "noop",
        "schedule": SCHEDULE,
        "run_date": {"workdays": -1, "calendar": "acme"},
    }

    saved = admin.put("/jobs/reports/nightly", job, headers=NEW)

    assert saved.status_code == 201, saved.text
    shown = admin.get("/jobs/reports/nightly").get_json()
    assert shown["schedule"] == SCHEDULE
    assert shown["run_date"]["workdays"] == -1
    changed = admin.put("/calendars/acme", BODY | {"days": {}}).get_json()
    assert changed["version"] == 2


def test_a_working_day_of_the_month_has_a_time(admin: Program) -> None:
    admin.put("/calendars/acme", BODY)
    schedule = {"workday": -1, "time": "18:30", "calendar": "acme"}

    admin.put("/jobs/reports/closing", {"handler": "noop", "schedule": schedule}, headers=NEW)

    assert admin.get("/jobs/reports/closing").get_json()["schedule"] == schedule
    fires = admin.get("/jobs/reports/closing/next?count=2").get_json()["fires_at"]
    assert len(fires) == 2


def test_a_job_file_brings_its_calendars(admin: Program) -> None:
    job = {"name": "nightly", "app": "reports", "handler": "noop", "enabled": True}
    schedule = {"cron": "0 0 9 * * ?", "calendar": "acme"}
    file = {"calendars": [BODY | {"name": "acme"}], "jobs": [job | {"schedule": schedule}]}

    dry = admin.post("/apply?dry_run=true", file).get_json()
    listed = admin.get("/calendars").get_json()["items"]
    done = admin.post("/apply", file).get_json()

    assert [change["what"] for change in dry["changes"]] == ["calendar", "job"]
    assert listed == []
    assert [change["what"] for change in done["changes"]] == ["calendar", "job"]
    assert admin.post("/apply", file).get_json()["changes"] == []


def test_all_that_is_wrong_with_a_calendar_is_told_at_once(admin: Program) -> None:
    unreadable = admin.put("/calendars/cn", {"days": {"x": "off"}, "until": "y", "weekend": ["Z"]})
    broken = admin.put("/calendars/cn", {"weekend": ["SUT"], "days": {"2036-12-01": "wrk"}})

    told = [[one["pointer"] for one in each.get_json()["errors"]] for each in (unreadable, broken)]
    assert told == [["/days/x", "/until", "/weekend"], ["/weekend", "/days"]]
