"""Jobs as they are shown."""

from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from warren.command_line.jobs import HEADERS, job_facts, job_line
from warren.resources.jobs import JobOverview, ShownJob
from warren.scheduler.jobs.records import job_spec
from warren.scheduler.jobs.spec import FIELDS, JobSpec, columns_of
from warren.scheduler.schedules.reading import next_fire, next_fires, waits_for
from warren.scheduler.views.job_view import facts_in_words, job_overview
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.listings.job_search import ListedJob
from warren.sql.models import Job

NOON = 1_796_126_400_000  # 2026-12-01T12:00:00Z
HOUR = 3_600_000
UTC = ZoneInfo("UTC")


def job(**columns: Any) -> ListedJob:
    """A row as `warren.sql.listings.job_search.search` gives it."""
    spec = JobSpec(name="nightly", app="reports", handler="report")
    row = Job(id=7, app_id=1, script_type="BEAN", is_enabled=1, next_tick_at=0, **columns_of(spec))
    others = {"app": "reports", "last_run_id": None, "last_status": None, "last_due_at": None}
    others |= {"script_number": None}
    for name, value in columns.items():
        if name in others:
            others[name] = value
        else:
            setattr(row, name, value)
    own = {name: getattr(row, name) for name in ListedJob._fields if hasattr(Job, name)}
    return ListedJob(**own | others, stored=row)


def cron(expression: str, **columns: Any) -> ListedJob:
    return job(schedule_kind="CRON", schedule_value=expression, **columns)


def view(row: ListedJob, *children: str) -> JobOverview:
    spec = job_spec(row.stored, row.app, children, with_source=False)
    return job_overview(row, spec, now_ms=NOON, timezone="UTC", children=children)


def facts_of(row: ListedJob, *children: str) -> dict[str, str]:
    spec = job_spec(row.stored, row.app, children, with_source=False)
    words = {"words": facts_in_words(spec), "rule": "", "waits_for": waits_for(row)}
    seen = msgspec.structs.asdict(view(row, *children))
    return job_facts(ShownJob(**seen, **words, blocked_by=[]), now_ms=NOON, zone=UTC)


class TestNextFire:
    def test_cron_is_in_the_zone_of_the_job(self) -> None:
        tick = next_fire(cron("0 0 2 * * ?", timezone="Asia/Shanghai"), now_ms=NOON, timezone="UTC")

        assert tick == NOON + 6 * HOUR

    def test_job_without_a_zone_has_the_schedulers(self) -> None:
        tick = next_fire(cron("0 0 2 * * ?"), now_ms=NOON, timezone="Asia/Shanghai")

        assert tick == NOON + 6 * HOUR

    def test_rate_keeps_the_phase_of_its_stored_tick(self) -> None:
        row = job(schedule_kind="FIX_RATE", schedule_value="60", next_tick_at=NOON + 67_000)

        assert next_fires(row, now_ms=NOON, count=3, timezone="UTC") == [
            NOON + 7_000,
            NOON + 67_000,
            NOON + 127_000,
        ]

    def test_stopped_rate_would_begin_now(self) -> None:
        row = job(schedule_kind="FIX_RATE", schedule_value="60", is_enabled=0)

        assert next_fires(row, now_ms=NOON, count=1, timezone="UTC") == [NOON + 60_000]
        assert next_fire(row, now_ms=NOON, timezone="UTC") is None

    def test_fewer_are_given_when_no_more_exist(self) -> None:
        row = cron("0 0 0 24 12 ? 2026-2027")

        assert len(next_fires(row, now_ms=NOON, count=10, timezone="UTC")) == 2

    @pytest.mark.parametrize("count", [1, 5])
    def test_instant_fires_once(self, count: int) -> None:
        row = job(schedule_kind="AT", schedule_value="2026-12-01T13:00:00Z")

        assert next_fires(row, now_ms=NOON, count=count, timezone="UTC") == [NOON + HOUR]
        assert next_fires(row, now_ms=NOON + HOUR, count=count, timezone="UTC") == []

    def test_job_without_a_schedule_never_fires_by_itself(self) -> None:
        assert next_fire(job(), now_ms=NOON, timezone="UTC") is None

    def test_schedule_broken_in_the_database_hides_no_other_job(self) -> None:
        assert next_fire(cron("nonsense"), now_ms=NOON, timezone="UTC") is None
        assert job_line(view(cron("nonsense")), now_ms=NOON)[2] == "cron nonsense"


@pytest.mark.parametrize(
    ("kind", "conf", "words"),
    [
        ("CRON", "0 0 2 * * ?", "cron 0 0 2 * * ?"),
        ("FIX_RATE", "30", "every 30 s"),
        ("FIX_DELAY", "30", "delay 30 s"),
        ("AT", "2026-12-01T13:00:00Z", "at 2026-12-01T13:00:00Z"),
        ("NONE", None, "none"),
        ("LUNAR", "full moon", "LUNAR full moon"),
    ],
)
def test_schedule_is_said_as_in_a_job_file(kind: str, conf: str | None, words: str) -> None:
    shown = view(job(schedule_kind=kind, schedule_value=conf, is_enabled=0)).flat()

    assert shown["schedule"] == words


def test_line_has_a_cell_for_each_header() -> None:
    row = cron("0 0 2 * * ?", last_status="FAILED", last_due_at=NOON - 5_000)

    line = job_line(view(row), now_ms=NOON)

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
    line = job_line(view(cron("0 0 2 * * ?", is_enabled=0)), now_ms=NOON)

    assert line[3:5] == ("", "stopped")


def test_job_without_a_schedule_runs_on_demand_unless_warren_has_stopped_it() -> None:
    row = {"schedule_kind": "NONE", "schedule_value": None, "is_enabled": 0}

    states = [
        job_line(view(job(**row, stop_reason=reason)), now_ms=NOON)[4] for reason in (None, "gone")
    ]

    assert states == ["on demand", "stopped"]


def test_json_has_plain_types() -> None:
    row = job(alarm_email="a@b,c@d", process="fresh", is_enabled=0, stop_reason="no more ticks")
    shown = view(row).flat()

    assert shown["alarm_emails"] == ["a@b", "c@d"]
    assert (shown["process"], shown["enabled"]) == ("fresh", False)
    assert (shown["param"], shown["author"]) == ("", "")
    assert shown["stop_reason"] == "no more ticks"
    assert shown["timezone"] == "UTC"


def test_facts_say_what_is_special_and_leave_out_the_rest() -> None:
    facts = facts_of(
        cron(
            "0 0 2 * * ?",
            timeout=30,
            retries=2,
            retry_delay=10,
            stop_reason="",
        )
    )

    assert facts["next fire"] == "2026-12-02 02:00:00 UTC  (in 14 h)"
    assert (facts["timeout"], facts["retries"], facts["retry delay"]) == ("30 s", "2", "10 s")
    assert facts["stopped because"] == facts["process"] == facts["alarm webhook"] == ""


class TestFixedDelay:
    def test_the_tick_that_is_to_come_is_the_only_one_known(self) -> None:
        row = job(schedule_kind="FIX_DELAY", schedule_value="60", next_tick_at=NOON + 5)

        assert next_fires(row, now_ms=NOON, count=3, timezone="UTC") == [NOON + 5]

    def test_while_a_run_is_open_there_is_none(self) -> None:
        row = job(schedule_kind="FIX_DELAY", schedule_value="60", next_tick_at=PARKED_MS)

        assert next_fires(row, now_ms=NOON, count=3, timezone="UTC") == []
        assert view(row).flat()["next_fire_at"] is None
        facts = facts_of(row)
        assert facts["next fire"] == "60 s after the end of its run"

    def test_started_now_it_fires_at_once(self) -> None:
        row = job(schedule_kind="FIX_DELAY", schedule_value="60", is_enabled=0)

        assert next_fires(row, now_ms=NOON, count=3, timezone="UTC") == [NOON]


def test_children_are_shown_by_name() -> None:
    kin = ["reports/mail", "other/next"]

    assert view(job(), *kin).flat()["children"] == kin
    facts = facts_of(job(), *kin)
    assert facts["children"] == "reports/mail, other/next"


def test_facts_tell_every_field_that_is_declared() -> None:
    script = {"script_type": "GLUE_SHELL", "script_number": 3, "script_remark": "why"}
    facts = facts_of(job(timezone="Asia/Shanghai", **script))

    elsewhere = {"name", "app", "schedule_kind", "schedule_value", "timezone", "enabled"}
    elsewhere |= {"schedule_options"}
    assert {name.replace("_", " ") for name in FIELDS.keys() - elsewhere} - facts.keys() == {
        "script language",
        "script source",
        "script remark",
    }
    assert facts["script"] == "shell, version 3: why"
    assert facts["schedule"] == "none  (Asia/Shanghai)"


def test_json_tells_every_field_that_is_declared() -> None:
    script = {"script_type": "GLUE_SHELL", "script_source": "true", "script_version": 57}
    script |= {"script_number": 3}
    shown = view(job(**script)).flat()

    elsewhere = {"schedule_kind", "schedule_value", "schedule_options", "script_source"}
    assert FIELDS.keys() - shown.keys() == elsewhere
    assert (shown["script_language"], shown["script_version"]) == ("shell", 57)
    assert shown["script_number"] == 3
