"""Checks the given time zone against the jobs' next fire times.

No column names the zone of XXL-JOB's server. But the server computed `trigger_next_time` from the
cron expression in that zone, so if an expression gives another time, the zone is wrong.
"""

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from warren.errors import CommandError
from warren.importing.xxl_job.source_tables import INFO
from warren.scheduler.imports.findings import Finding, Verdict
from warren.scheduler.imports.items import ImportedJob, ImportItems
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.cron_schedule import CronSchedule
from warren.sql.instants import iso

#: Zones to try if the given one does not fit.
_OTHERS = (
    *("UTC", "Asia/Shanghai", "Asia/Tokyo", "Asia/Singapore", "Asia/Kolkata", "Asia/Dubai"),
    *("Europe/London", "Europe/Berlin", "Europe/Moscow", "Europe/Istanbul"),
    *("America/New_York", "America/Chicago", "America/Los_Angeles", "America/Sao_Paulo"),
    *(f"Etc/GMT{hours:+d}" for hours in range(-14, 13)),
)
#: Jobs checked at most; more would add no certainty.
_LOOKED_AT = 500
#: One in this many next times may be wrong for another reason.
_OUTLIERS = 10


def check_zone(items: ImportItems, zone: ZoneInfo) -> None:
    """Refuse a zone that contradicts next fire times, if another zone fits nearly all of them.

    Times that no zone explains become findings.

    Raises:
        CommandError: the zone is wrong.

    """
    told = [job for job in items.jobs if _tells(job)][:_LOOKED_AT]
    wrong = [job for job in told if not _fits(job, str(zone))]
    if not wrong:
        return
    better = _better_zone(wrong, told)
    if better:
        first = wrong[0]
        raise CommandError(
            f"expected --timezone to be that of XXL-JOB's server, got: {zone}; "
            f"jobs whose next time is another there: {len(wrong)}, such as job {first.source_id} "
            f"({first.spec.schedule_value}, {iso(first.next_tick_ms)}); it fits {better}"
        )
    items.findings += [
        Finding(
            verdict=Verdict.DIFFERS,
            table=INFO,
            id=job.source_id,
            column="trigger_next_time",
            value=str(iso(job.next_tick_ms)),
            words=f"by its schedule it is not due then in {zone}; here the schedule decides",
        )
        for job in wrong
    ]


def _tells(job: ImportedJob) -> bool:
    has_cron = job.spec.schedule_kind == CronSchedule.kind and not job.stop_reasons
    return job.is_running and has_cron and job.next_tick_ms > 0


def _fits(job: ImportedJob, zone: str) -> bool:
    try:
        schedule = CronSchedule.read(job.spec.schedule_value, zone)
    except Problem:
        return True
    second = job.next_tick_ms // 1_000 * 1_000
    return schedule.next_after(second - 1, 0) == second


def _better_zone(wrong: Sequence[ImportedJob], told: Sequence[ImportedJob]) -> str | None:
    """Return a zone in which at most a tenth as many next times are wrong."""
    for name in _OTHERS:
        left = len(wrong) // _OUTLIERS
        for job in told:
            left -= not _fits(job, name)
            if left < 0:
                break
        else:
            return name
    return None
