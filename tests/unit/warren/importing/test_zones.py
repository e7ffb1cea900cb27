"""A wrong time zone is noticed by when jobs are due next, though a few be odd in every zone."""

from zoneinfo import ZoneInfo

import pytest

from warren.errors import CommandError
from warren.importing.xxl_job.mapping import check_zone
from warren.scheduler.imports.items import ImportedJob, ImportItems
from warren.scheduler.jobs.spec import JobSpec

#: Two at night on the 1st of March 2026 in Shanghai.
TWO_AT_NIGHT_MS = 1_772_301_600_000


def items(*next_ticks: int) -> ImportItems:
    spec = JobSpec(
        name="nightly",
        app="shop",
        handler="h",
        schedule_kind="CRON",
        schedule_value="0 0 2 * * ?",
        timezone="",
    )
    jobs = [
        ImportedJob(source_id=number, spec=spec, is_running=True, next_tick_ms=at_ms)
        for number, at_ms in enumerate(next_ticks, 1)
    ]
    return ImportItems(jobs=jobs)


def test_one_odd_job_does_not_hide_that_the_zone_is_wrong() -> None:
    found = items(TWO_AT_NIGHT_MS + 17_000, *[TWO_AT_NIGHT_MS] * 12)

    with pytest.raises(CommandError, match="it fits Asia/Shanghai"):
        check_zone(found, ZoneInfo("UTC"))


def test_odd_jobs_are_told_where_the_zone_is_right() -> None:
    found = items(TWO_AT_NIGHT_MS + 17_000, *[TWO_AT_NIGHT_MS] * 12)

    check_zone(found, ZoneInfo("Asia/Shanghai"))

    assert [finding.id for finding in found.findings] == [1]
