"""`warren audit`: checks that every due time was handled exactly once."""

import json
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

import click

from warren.command_options import as_json, examples, takes_settings
from warren.database_access import now_ms, open_database
from warren.scheduler.audit.integrity_check import AuditReport, audit, epoch_of
from warren.scheduler.audit.tally import COUNTS, MAX_NAMED, JobTally
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.names import Resolver
from warren.scheduler.problems import counted
from warren.settings.settings import Settings
from warren.sql import limits
from warren.sql.epochs import Cause, EpochRow
from warren.sql.instants import iso
from warren.terminal.output import local, print_json, print_table, read_instant, visible

UNSOUND = 1
#: The counts of a tally, and their names in a report.
SHOWN = {name: name.removesuffix("_count") for name in COUNTS}
HEADERS = ("job", *SHOWN.values())


@click.command(
    "audit", epilog=examples("warren audit --since 1d", "warren audit --job probe | tail -1")
)
@click.option("--since", metavar="T", help="Start: ISO 8601, or 10m, 2h, 1d ago.")
@click.option("--until", metavar="T", help="End. Default: now.")
@click.option("--job", "name", help="Only this job: NAME, or APP/NAME.")
@as_json
@takes_settings("database_url", "timezone")
def audit_command(
    settings: Settings, since: str | None, until: str | None, name: str | None, as_json: bool
) -> int:
    """Recompute every due time and look for it among runs and recorded skips.

    The exit status is 1 if a due time was lost, fired twice, or fired late although its job skips
    late ones, if a run has another run's result, if the holders of limits do not match the runs, or
    if the board does not match the runs. The last line is one JSON object.
    """
    with open_database(settings) as database:
        now = now_ms(database)
        since_ms, until_ms, job_id = 0, now, None
        if since is not None:
            since_ms = read_instant(since, now_ms=now, zone=settings.zone)
        if until is not None:
            until_ms = read_instant(until, now_ms=now, zone=settings.zone)
        if since_ms >= until_ms:
            raise click.UsageError(
                f"expected --since to be before {until or 'now'}, got: {since or 'the beginning'}"
            )
        if name is not None:
            job_id = Resolver(database).job(name)
        report = audit(
            database,
            since_ms=since_ms,
            until_ms=until_ms,
            timezone=database.read(lambda session: cluster_zone(session, settings.timezone)),
            job_id=job_id,
        )
    if as_json:
        for job in report.jobs:
            print_json(_tally_json(job))
    else:
        print_table(
            HEADERS,
            [_tally_line(job) for job in report.jobs],
            nothing="no due time of a schedule to look for",
        )
        for words in _faults(report, settings.zone):
            print(visible(words))
    print(json.dumps(summary(report)))
    return 0 if report.is_sound else UNSOUND


def summary(report: AuditReport) -> dict[str, int | bool]:
    """Return the sums over all jobs, and whether nothing was lost, doubled or late."""
    counts = [_counts(job) for job in report.jobs]
    return {
        "sound": report.is_sound,
        **{shown: sum(count[shown] for count in counts) for shown in SHOWN.values()},
        "limits": len(report.limits),
        "odd": len(report.odd),
        "board": len(report.board),
        "epochs": len(report.epochs),
        "planned": report.planned,
        "in_flight": report.in_flight,
    }


def _counts(job: JobTally) -> dict[str, int]:
    return {shown: getattr(job, name) for name, shown in SHOWN.items()}


def _tally_json(job: JobTally) -> dict[str, Any]:
    return {
        "job": job.name,
        "job_id": job.job_id,
        **_counts(job),
        "lost_at": [iso(fault.tick) for fault in job.lost],
        "doubled_at": [iso(fault.tick) for fault in job.doubled],
        "late_at": [iso(fault.tick) for fault in job.late],
    }


def _tally_line(job: JobTally) -> tuple[str, ...]:
    return (job.name, *map(str, _counts(job).values()))


_DAMAGE = {
    limits.ENDED: "limit: {limit} is held by run #{run_id}, which does not hold it",
    limits.MISSING: "limit: run #{run_id} does not hold all that it has taken",
    limits.OVERFULL: "limit: more of {limit} is held than it allows",
}


def _blame(epoch: EpochRow | None, zone: ZoneInfo) -> str:
    if epoch is None:
        return ""
    what = "was on another server" if epoch.cause == Cause.PROMOTED else "had gone back"
    return f"the database {what} by {local(epoch.began_at, zone)}"


def _faults(report: AuditReport, zone: ZoneInfo) -> Iterator[str]:
    for damaged in report.limits:
        name = damaged.limit or "a job's own limit"
        yield _DAMAGE[damaged.what].format(limit=name, run_id=damaged.run_id)
    known = [audited.epoch for audited in report.epochs]
    for epoch, again in report.epochs:
        is_told = epoch.told_by and epoch.cause != Cause.PROMOTED
        by = f"{', told by' if is_told else ':'} {epoch.told_by}" if epoch.told_by else ""
        yield (
            f"epoch: {_blame(epoch, zone)} ({epoch.cause.lower()}{by}): "
            f"run ids went on at {epoch.next_id} instead of {epoch.found_id}; "
            f"runs with ids that were given out twice: {again}"
        )
    for odd in report.odd:
        what = "started before it was due" if odd.is_early else "succeeded, but nobody started it"
        after = f" ({_blame(odd.epoch, zone)})" if odd.epoch else ""
        yield f"odd: {odd.job}, run #{odd.run.id} at {local(odd.run.due_at, zone)} {what}{after}"
    for wrong in report.board[:MAX_NAMED]:
        about = f"job #{wrong.job_id}" if wrong.job_id else f"app #{wrong.app_id}"
        words = f"{wrong.what} is {wrong.stored or 'nothing'} and not {wrong.counted or 'nothing'}"
        yield f"board: {about}: {words}"
    for job in report.jobs:
        for what, faults, count in (
            ("lost", job.lost, job.lost_count),
            ("doubled", job.doubled, job.doubled_count),
            ("late", job.late, job.late_count),
        ):
            for fault in faults:
                cause = epoch_of(known, fault.tick) if what == "lost" else None
                why = f" ({fault.why or _blame(cause, zone)})" if fault.why or cause else ""
                yield f"{what}: {job.name} at {local(fault.tick, zone)}{why}"
            if count > len(faults):
                yield f"{what}: {job.name}, {counted(count - len(faults), 'more time')}"
