"""Jobs as they are shown."""

from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from scheduler.upcoming import next_fire, next_fires
from sql.parked import PARKED_MS
from warren.job_view import HEADERS, job_facts, job_json, job_line

NOON = 1_796_126_400_000  # 2026-12-01T12:00:00Z
HOUR = 3_600_000
UTC = ZoneInfo("UTC")


def job(**columns: Any) -> Any:
    """A row as `sql.listings.jobs` gives it."""
    row = {
        "id": 7,
        "name": "nightly",
        "app": "reports",
        "author": None,
        "schedule_type": "NONE",
        "schedule_conf": None,
        "timezone": None,
        "misfire_strategy": "DO_NOTHING",
        "executor_route_strategy": "FIRST",
        "executor_block_strategy": "SERIAL_EXECUTION",
        "executor_handler": "report",
        "glue_type": "BEAN",
        "glue_id": None,
        "glue_remark": None,
        "executor_param": None,
        "executor_timeout": 0,
        "executor_fail_retry_count": 0,
        "retry_delay": 0,
        "delivery": "AT_MOST_ONCE",
        "concurrency": 1,
        "fresh_process": 0,
        "alarm_email": None,
        "alarm_webhook": None,
        "alarm_style": None,
        "trigger_status": 1,
        "trigger_last_time": 0,
        "trigger_next_time": 0,
        "stop_reason": None,
        "last_status": None,
        "last_due_at": None,
    }
    return SimpleNamespace(**row | columns)


def cron(expression: str, **columns: Any) -> Any:
    return job(schedule_type="CRON", schedule_conf=expression, **columns)


class TestNextFire:
    def test_cron_is_in_the_zone_of_the_job(self) -> None:
        tick = next_fire(cron("0 0 2 * * ?", timezone="Asia/Shanghai"), now_ms=NOON, timezone="UTC")

        assert tick == NOON + 6 * HOUR

    def test_job_without_a_zone_has_the_schedulers(self) -> None:
        tick = next_fire(cron("0 0 2 * * ?"), now_ms=NOON, timezone="Asia/Shanghai")

        assert tick == NOON + 6 * HOUR

    def test_rate_keeps_the_phase_of_its_stored_tick(self) -> None:
        row = job(schedule_type="FIX_RATE", schedule_conf="60", trigger_next_time=NOON + 67_000)

        assert next_fires(row, now_ms=NOON, count=3, timezone="UTC") == [
            NOON + 7_000,
            NOON + 67_000,
            NOON + 127_000,
        ]

    def test_stopped_rate_would_begin_now(self) -> None:
        row = job(schedule_type="FIX_RATE", schedule_conf="60", trigger_status=0)

        assert next_fires(row, now_ms=NOON, count=1, timezone="UTC") == [NOON + 60_000]
        assert next_fire(row, now_ms=NOON, timezone="UTC") is None

    def test_fewer_are_given_when_no_more_exist(self) -> None:
        row = cron("0 0 0 24 12 ? 2026-2027")

        assert len(next_fires(row, now_ms=NOON, count=10, timezone="UTC")) == 2

    @pytest.mark.parametrize("count", [1, 5])
    def test_instant_fires_once(self, count: int) -> None:
        row = job(schedule_type="AT", schedule_conf="2026-12-01T13:00:00Z")

        assert next_fires(row, now_ms=NOON, count=count, timezone="UTC") == [NOON + HOUR]
        assert next_fires(row, now_ms=NOON + HOUR, count=count, timezone="UTC") == []

    def test_job_without_a_schedule_never_fires_by_itself(self) -> None:
        assert next_fire(job(), now_ms=NOON, timezone="UTC") is None

    def test_schedule_broken_in_the_database_hides_no_other_job(self) -> None:
        assert next_fire(cron("nonsense"), now_ms=NOON, timezone="UTC") is None
        assert job_line(cron("nonsense"), now_ms=NOON, timezone="UTC")[2] == "cron nonsense"


@pytest.mark.parametrize(
    ("kind", "conf", "words"),
    [
        ("CRON", "0 0 2 * * ?", "cron 0 0 2 * * ?"),
        ("FIX_RATE", "30", "every 30 s"),
        ("FIX_DELAY", "30", "delay 30 s"),
        ("AT", "2026-12-01T13:00:00Z", "at 2026-12-01T13:00:00Z"),
        ("NONE", None, "none"),
    ],
)
def test_schedule_is_said_as_in_a_job_file(kind: str, conf: str | None, words: str) -> None:
    shown = job_json(
        job(schedule_type=kind, schedule_conf=conf, trigger_status=0), now_ms=NOON, timezone="UTC"
    )

    assert shown["schedule"] == words


def test_line_has_a_cell_for_each_header() -> None:
    row = cron("0 0 2 * * ?", last_status="FAILED", last_due_at=NOON - 5_000)

    line = job_line(row, now_ms=NOON, timezone="UTC")

    assert len(line) == len(HEADERS)
    assert line == (
        "nightly",
        "reports",
        "cron 0 0 2 * * ?",
        "in 14 h",
        "enabled",
        "FAILED",
        "5 s ago",
    )


def test_stopped_job_has_no_next_fire() -> None:
    line = job_line(cron("0 0 2 * * ?", trigger_status=0), now_ms=NOON, timezone="UTC")

    assert line[3:5] == ("", "stopped")


def test_json_has_plain_types() -> None:
    shown = job_json(
        job(alarm_email="a@b,c@d", fresh_process=1, trigger_status=0, stop_reason="no more ticks"),
        now_ms=NOON,
        timezone="UTC",
    )

    assert shown["alarm_emails"] == ["a@b", "c@d"]
    assert (shown["fresh_process"], shown["enabled"]) == (True, False)
    assert (shown["param"], shown["author"]) == ("", "")
    assert shown["stop_reason"] == "no more ticks"
    assert shown["timezone"] == "UTC"


def test_facts_say_what_is_special_and_leave_out_the_rest() -> None:
    facts = job_facts(
        cron(
            "0 0 2 * * ?",
            executor_timeout=30,
            executor_fail_retry_count=2,
            retry_delay=10,
            stop_reason="",
        ),
        now_ms=NOON,
        zone=UTC,
    )

    assert facts["next fire"] == "2026-12-02 02:00:00 UTC  (in 14 h)"
    assert (facts["timeout"], facts["retries"]) == ("30 s", "2, 10 s apart")
    assert facts["stopped because"] == facts["process"] == facts["alarm"] == ""


class TestFixedDelay:
    def test_the_tick_that_is_to_come_is_the_only_one_known(self) -> None:
        row = job(schedule_type="FIX_DELAY", schedule_conf="60", trigger_next_time=NOON + 5)

        assert next_fires(row, now_ms=NOON, count=3, timezone="UTC") == [NOON + 5]

    def test_while_a_run_is_open_there_is_none(self) -> None:
        row = job(schedule_type="FIX_DELAY", schedule_conf="60", trigger_next_time=PARKED_MS)

        assert next_fires(row, now_ms=NOON, count=3, timezone="UTC") == []
        assert job_json(row, now_ms=NOON, timezone="UTC")["next_fire_at"] is None
        facts = job_facts(row, now_ms=NOON, zone=UTC)
        assert facts["next fire"] == "60 s after the end of its run"

    def test_started_now_it_fires_at_once(self) -> None:
        row = job(schedule_type="FIX_DELAY", schedule_conf="60", trigger_status=0)

        assert next_fires(row, now_ms=NOON, count=3, timezone="UTC") == [NOON]


def test_children_are_shown_by_name() -> None:
    kin = ["reports/mail", "other/next"]

    assert job_json(job(), now_ms=NOON, timezone="UTC", children=kin)["children"] == kin
    facts = job_facts(job(), now_ms=NOON, zone=UTC, children=kin)
    assert facts["children"] == "reports/mail, other/next"
