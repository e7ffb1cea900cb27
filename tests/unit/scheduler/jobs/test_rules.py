"""What a job may look like, whoever asks for it."""

from dataclasses import replace

import pytest

from warren.scheduler.jobs import rules
from warren.scheduler.jobs.spec import ROUTES, JobSpec
from warren.scheduler.problems import Problem
from warren.scheduler.routing import routes

NOW_MS = 1_790_000_000_000
GOOD = JobSpec(name="nightly", app="reports", handler="report")


def found(**changes: object) -> list[tuple[str, str]]:
    spec = replace(GOOD, **changes)
    return [(each.field, str(each)) for each in rules.problems(spec, now_ms=NOW_MS)]


def test_job_with_defaults_is_right() -> None:
    assert found() == []


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_of_this_version_is_right(route: str) -> None:
    assert found(route=route) == []


def test_routes_are_all_eleven_and_can_be_routed() -> None:
    assert set(ROUTES) == set(routes.BUILT_IN)
    assert len(ROUTES) == 11


def test_unknown_route_is_refused_with_the_nearest_one() -> None:
    assert found(route="FIRTS") == [("route", "unknown route 'FIRTS', did you mean 'FIRST'?")]


def test_added_route_is_right_where_it_is_installed() -> None:
    spec = replace(GOOD, route="STICKY")

    assert rules.problems(spec, now_ms=NOW_MS, added_routes=["STICKY"]) == []
    [problem] = rules.problems(spec, now_ms=NOW_MS)
    assert "unknown route 'STICKY'" in str(problem)


def test_added_route_is_offered_where_it_is_nearest() -> None:
    spec = replace(GOOD, route="STIKY")

    [problem] = rules.problems(spec, now_ms=NOW_MS, added_routes=["STICKY"])

    assert str(problem) == "unknown route 'STIKY', did you mean 'STICKY'?"


def test_each_field_at_fault_is_named() -> None:
    problems = found(
        name="",
        app="No",
        timezone="Mars/X",
        schedule_kind="CRON",
        schedule_value="x",
        route="x",
        block="x",
        misfire="x",
        delivery="x",
        concurrency=0,
        timeout=-1,
        retries=-1,
        retry_delay=-1,
        retry_backoff="x",
        retry_most=-2,
        retry_jitter=1.1,
        param="x" * 65_537,
        alarm_emails=("x",),
        alarm_webhook="x",
    )

    assert {field for field, _ in problems} == {
        "name",
        "app",
        "schedule/timezone",
        "schedule",
        "route",
        "block",
        "misfire",
        "delivery",
        "concurrency",
        "timeout",
        "retries",
        "retry_delay",
        "retry/backoff",
        "retry/most",
        "retry/jitter",
        "param",
        "alarm/emails",
        "alarm/webhook",
    }


@pytest.mark.parametrize(
    ("kind", "conf"),
    [
        ("NONE", ""),
        ("CRON", "0 0 2 * * ?"),
        ("CRON", "0 0 0 29 2 ? 2028"),
        ("FIX_RATE", "1"),
        ("FIX_DELAY", "60"),
        ("AT", "2020-01-01T00:00:00Z"),
    ],
)
def test_schedule_that_may_fire_is_right(kind: str, conf: str) -> None:
    assert found(schedule_kind=kind, schedule_value=conf) == []


@pytest.mark.parametrize(
    ("kind", "conf", "words"),
    [
        ("CRON", "0 0 0 1 1 ? 2020", "never fires again"),
        ("CRON", "0 0 0 31 4 ?", "never fires"),
        ("FIX_DELAY", "0", "'0'"),
        ("SOMETIMES", "", "SOMETIMES"),
        ("FIX_RATE", "-5", "-5"),
    ],
)
def test_schedule_that_never_fires_is_refused(kind: str, conf: str, words: str) -> None:
    [(field, text)] = found(schedule_kind=kind, schedule_value=conf)

    assert field == "schedule"
    assert words in text


def test_wrong_zone_is_not_said_of_the_schedule_too() -> None:
    problems = found(schedule_kind="CRON", schedule_value="0 0 2 * * ?", timezone="Mars/X")

    assert [field for field, _ in problems] == ["schedule/timezone"]


def test_cron_is_read_in_the_zone_of_the_job() -> None:
    # 20:00 on that day has passed in Shanghai and has not in UTC.
    evening = {"schedule_kind": "CRON", "schedule_value": "0 0 20 21 9 ? 2026"}

    assert found(**evening, timezone="UTC") == []
    assert [field for field, _ in found(**evening, timezone="Asia/Shanghai")] == ["schedule"]


def test_every_message_is_one_line() -> None:
    problems = found(name="a\nb", app="a\nb", author="a\nb", handler="a\nb", route="a\nb")

    assert len(problems) == 5
    assert all("\n" not in text for _, text in problems)


def test_children_are_names_with_or_without_an_app() -> None:
    assert found(children=("next", "other/next", "Old and new")) == []


@pytest.mark.parametrize("child", ["", "app/", " padded"])
def test_child_that_is_no_name_is_refused(child: str) -> None:
    [(field, text)] = found(children=("good", child))

    assert field == "children"
    assert text == f"expected children to be names of jobs, NAME or APP/NAME, got: {child!r}"


def test_child_that_is_named_twice_is_refused() -> None:
    assert found(children=("a", "b", "a")) == [("children", "duplicate child 'a'")]


def test_a_broadcast_is_no_route_of_an_app() -> None:
    rules.check_app_route("", ())
    rules.check_app_route("OURS", ("OURS",))

    with pytest.raises(Problem, match="unknown route 'SHARDING_BROADCAST'"):
        rules.check_app_route("SHARDING_BROADCAST", ())
