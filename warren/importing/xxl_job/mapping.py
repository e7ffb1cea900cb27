"""Maps XXL-JOB's tables to what is imported. Pure: rows in, values out.

Groups become apps, which are named so that the gateway finds them; those with manual addresses keep
these. Children that do not exist are dropped, and so are links that close a circle.

No column names the time zone of XXL-JOB's server, so the user gives it. It is checked: the server
computed `trigger_next_time` from the cron expression in its zone, so if an expression gives another
time, the given zone is wrong.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from warren.broker.destinations import AddressRefused
from warren.broker.messages import APP_PATTERN
from warren.broker.reasons import Reason, Why
from warren.errors import CommandError
from warren.executor.gateway.allow_list import AllowList, RemoteUrl
from warren.importing.xxl_job.job_conversion import JobReading, read_job
from warren.importing.xxl_job.source_tables import (
    GLUE,
    GROUP,
    INFO,
    OTHER_ZONES,
    READ_WHOLE,
    REPORT,
    RULES,
    USER,
    Row,
    Source,
    check_tables,
    known_as,
    unknown_columns,
)
from warren.scheduler.commands.account_commands import check_user_name
from warren.scheduler.imports.items import (
    Finding,
    ImportedApp,
    ImportedDay,
    ImportedJob,
    ImportedUser,
    ImportItems,
    Verdict,
    numbered,
)
from warren.scheduler.jobs.dependencies import find_circle
from warren.scheduler.jobs.rules import RESERVED_APP_NAMES
from warren.scheduler.jobs.spec import AppSpec
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.registry import CronSchedule
from warren.sql.accounts.users import Role
from warren.sql.instants import iso

_COLUMN = "child_jobid"
#: The most jobs that are checked; more would add no certainty.
_LOOKED_AT = 500
#: One in this many next times may be wrong for another reason.
_OUTLIERS = 10


def link(
    items: Sequence[ImportedJob], rows: Mapping[int, Row]
) -> tuple[list[ImportedJob], list[Finding]]:
    """Return the jobs with their children, and findings; jobs in a circle are stopped."""
    known = {item.source_id for item in items}
    children: dict[int, list[int]] = {}
    stopped: dict[int, Reason] = {}
    findings: list[Finding] = []
    for job_id in sorted(known):
        row = rows[job_id]
        for part in filter(None, (part.strip() for part in row.text(_COLUMN).split(","))):
            child = int(part) if part.isascii() and part.isdecimal() else 0
            if child not in known:
                words = "no such job; dropped"
                findings.append(row.finding(Verdict.DIFFERS, _COLUMN, words, part))
                continue
            listed = children.setdefault(job_id, [])
            if child in listed:
                continue
            listed.append(child)
            circle = find_circle(job_id, children)
            if circle:
                listed.remove(child)
                path = " -> ".join(map(str, circle))
                words = f"it closes the circle {path}; dropped"
                findings.append(row.finding(Verdict.DIFFERS, _COLUMN, words, part))
                stopped |= dict.fromkeys(circle, Why.CIRCLE_CUT(path=path))
    for job_id, why in stopped.items():
        findings.append(rows[job_id].finding(Verdict.STOPPED, _COLUMN, str(why)))
    linked = [
        replace(
            item,
            child_ids=tuple(children.get(item.source_id, ())),
            stop_reasons=(
                *item.stop_reasons,
                *(
                    Why.COLUMN(column=_COLUMN, why=stopped[source_id])
                    for source_id in [item.source_id]
                    if source_id in stopped
                ),
            ),
        )
        for item in items
    ]
    return linked, findings


_TITLE = 64
_ADDRESSES = 65_535
MANUAL = 1


@dataclass(slots=True)
class Groups:
    """The apps that groups become.

    `unreachable` are groups whose executors cannot join their app, because its name is not valid
    for an app.
    """

    items: list[ImportedApp] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    unreachable: set[int] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)


def read_groups(rows: Iterable[Row]) -> Groups:
    """Return the apps of all groups; groups whose names are equal here are merged."""
    groups = Groups()
    by_name: dict[str, ImportedApp] = {}
    for row in rows:
        name = _name(row, groups)
        spec = AppSpec(name=name, title=_title(row, groups), addresses=_addresses(row, groups))
        first = by_name.get(name)
        if first is None:
            by_name[name] = ImportedApp(source_id=row.id, spec=spec)
        else:
            by_name[name] = _merged(first, row.id, spec)
            words = f"merged with group {first.source_id}: both are app {name} here"
            groups.findings.append(row.finding(Verdict.DIFFERS, "app_name", words))
        groups.names[row.id] = name
    groups.items = list(by_name.values())
    return groups


def _name(row: Row, groups: Groups) -> str:
    there = row.text("app_name")
    # The same rule as the gateway's for registryKey.
    name = re.sub(r"[^a-z0-9-]", "-", there.strip().lower())
    if not re.fullmatch(APP_PATTERN, name) or name in RESERVED_APP_NAMES:
        name = f"app-{row.id}-{name}"[:64]
        groups.unreachable.add(row.id)
        words = f"no app's name; it is {name} here, and its jobs are stopped"
        groups.findings.append(row.finding(Verdict.DIFFERS, "app_name", words))
    elif name != there:
        words = f"it is {name} here; executors keep their name"
        groups.findings.append(row.finding(Verdict.DIFFERS, "app_name", words))
    return name


def _title(row: Row, groups: Groups) -> str | None:
    title = row.line("name")
    if len(title) > _TITLE:
        groups.findings.append(row.finding(Verdict.DIFFERS, "name", f"cut to {_TITLE} characters"))
    return title[:_TITLE].strip() or None


def _addresses(row: Row, groups: Groups) -> tuple[str, ...]:
    """Return the addresses of a manual group, in the form the gateway gives them."""
    if row.number("address_type") != MANUAL:
        return ()
    addresses: list[str] = []
    for text in filter(None, (part.strip() for part in row.text("address_list").split(","))):
        remote = _remote(text)
        if remote is None:
            words = "no URL of an executor"
            groups.findings.append(row.finding(Verdict.LEFT_OUT, "address_list", words, text))
        elif len(",".join([*addresses, remote.address])) > _ADDRESSES:
            words = "the list is too long here"
            groups.findings.append(row.finding(Verdict.LEFT_OUT, "address_list", words, text))
        elif remote.address not in addresses:
            addresses.append(remote.address)
            words = (
                f"{remote.address} here; it must register at a gateway, "
                f"WARREN_GATEWAY_ALLOW={remote.host}:{remote.port}"
            )
            groups.findings.append(row.finding(Verdict.DIFFERS, "address_list", words, text))
    if not addresses:
        words = "manual, and no address can be used: here it takes all that register"
        groups.findings.append(row.finding(Verdict.DIFFERS, "address_type", words))
    return tuple(addresses)


def _remote(text: str) -> RemoteUrl | None:
    """Return an executor's URL as the gateway parses it; None if it is not valid."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return AllowList.parse(f"{host}").check(parts.geturl())
    except (AddressRefused, ValueError):
        return None


def _merged(first: ImportedApp, source_id: int, spec: AppSpec) -> ImportedApp:
    addresses = tuple(dict.fromkeys((*first.spec.addresses, *spec.addresses)))
    if not (first.spec.addresses and spec.addresses):
        addresses = ()  # one of them uses all registered executors
    merged = replace(first.spec, addresses=addresses)
    return replace(first, spec=merged, merged_ids=(*first.merged_ids, source_id))


def check_zone(items: ImportItems, zone: ZoneInfo) -> None:
    """Refuse a zone that contradicts next fire times, if another zone fits nearly all of them.

    Times that no zone explains become findings.

    Raises:
        CommandError: the zone is wrong.

    """
    checked = [job for job in items.jobs if _shows_zone(job, zone)][:_LOOKED_AT]
    wrong = [job for job in checked if not _fits(job, str(zone))]
    if not wrong:
        return
    better = _better_zone(wrong, checked)
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


def _shows_zone(job: ImportedJob, zone: ZoneInfo) -> bool:
    if job.spec.timezone not in ("", str(zone)):
        return False  # a fork gives it a zone of its own
    has_cron = job.spec.schedule_kind == CronSchedule.kind and not job.stop_reasons
    return job.is_running and has_cron and job.next_tick_ms > 0


def _fits(job: ImportedJob, zone: str) -> bool:
    try:
        schedule = CronSchedule.read(job.spec.schedule_value, zone)
    except Problem:
        return True
    second = job.next_tick_ms // 1_000 * 1_000
    return schedule.next_after(second - 1, 0) == second


def _better_zone(wrong: Sequence[ImportedJob], checked: Sequence[ImportedJob]) -> str | None:
    """Return a zone in which at most a tenth as many next times are wrong."""
    for name in OTHER_ZONES:
        left = len(wrong) // _OUTLIERS
        for job in checked:
            left -= not _fits(job, name)
            if left < 0:
                break
        else:
            return name
    return None


def read_items(
    source: Source,
    *,
    zone: ZoneInfo,
    now_ms: int,
    app: str | None,
    datetimes: ZoneInfo | None = None,
    keeps_handlers: bool = False,
) -> ImportItems:
    """Return everything in a source except its runs; `app`: only that app, by its name here.

    `datetimes` is the zone of its DATETIME columns, if that is not `zone`. `keeps_handlers`: jobs
    of XXL-JOB's own handlers stay jobs of these.

    Raises:
        CommandError: it is not a database of XXL-JOB, has no such app, or the zone cannot be right.

    """
    columns = source.columns()
    check_tables(columns, source.name)
    wanted = {
        table: [name for name in columns[table] if known_as(table, name) in RULES[table]]
        for table in READ_WHOLE
    }
    read = source.rows(wanted)
    tables = {table: [Row.of(table, row) for row in read[table]] for table in READ_WHOLE}
    items = map_tables(
        tables, zone=zone, now_ms=now_ms, datetimes=datetimes, keeps_handlers=keeps_handlers
    )
    items.highest_run_id = source.highest_run_id()
    items.findings[:0] = [
        Finding(
            verdict=Verdict.LEFT_OUT,
            table=table,
            id=0,
            column=column,
            words="no version of XXL-JOB has this column",
        )
        for table, column in unknown_columns(columns)
    ]
    check_zone(items, zone)
    return items if app is None else _only(items, app, source.name)


def map_tables(
    tables: Mapping[str, Sequence[Row]],
    *,
    zone: ZoneInfo,
    now_ms: int,
    datetimes: ZoneInfo | None = None,
    keeps_handlers: bool = False,
) -> ImportItems:
    """Return what is made of the rows of all tables."""
    datetimes = datetimes or zone
    groups = read_groups(tables[GROUP])
    items = ImportItems(apps=groups.items, findings=groups.findings)
    reading = JobReading(
        apps=groups.names,
        unreachable=frozenset(groups.unreachable),
        zone=zone,
        datetimes=datetimes,
        now_ms=now_ms,
        keeps_handlers=keeps_handlers,
    )
    _read_jobs(tables, reading, items)
    _read_users(tables[USER], groups, items)
    _read_days(tables[REPORT], items, zone, datetimes)
    noted = {(finding.table, finding.id) for finding in items.findings}
    for table, described in ((GROUP, groups.names), (INFO, _names(items.jobs))):
        items.findings += [
            Finding(verdict=Verdict.SAME, table=table, id=row_id, value=name)
            for row_id, name in described.items()
            if (table, row_id) not in noted
        ]
    return items


def _names(jobs: Iterable[ImportedJob]) -> dict[int, str]:
    return {job.source_id: f"{job.spec.app}/{job.spec.name}" for job in jobs}


def _read_jobs(
    tables: Mapping[str, Sequence[Row]], reading: JobReading, items: ImportItems
) -> None:
    history: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(tables[GLUE], key=lambda row: row.id):
        history[row.number("job_id")].append(row)
    rows = {row.id: row for row in sorted(tables[INFO], key=lambda row: row.id)}
    jobs = []
    for row in rows.values():
        if row.number("job_group") not in reading.apps:
            words = "there is no such group; the job is left out"
            items.findings.append(row.finding(Verdict.LEFT_OUT, "job_group", words))
            continue
        job, findings = read_job(row, history.pop(row.id, []), reading)
        jobs.append(job)
        items.findings += findings
    for job_id, left in history.items():
        if job_id not in rows:
            words = f"of job {job_id}, which is gone"
            items.findings += [row.finding(Verdict.LEFT_OUT, "job_id", words) for row in left]
    linked, findings = link(_with_own_names(jobs, rows, items), rows)
    items.jobs = linked
    items.findings += findings


def _with_own_names(
    jobs: Iterable[ImportedJob], rows: Mapping[int, Row], items: ImportItems
) -> list[ImportedJob]:
    """Return the jobs with names that are unique in their apps."""
    taken: set[tuple[str, str]] = set()
    named = []
    for job in jobs:
        spec = job.spec
        if (spec.app, spec.name) in taken:
            spec = replace(spec, name=numbered(spec.name, job.source_id))
            words = f"it is {spec.name!r} here, as another job has its name"
            items.findings.append(rows[job.source_id].finding(Verdict.DIFFERS, "name", words))
        taken.add((spec.app, spec.name))
        named.append(replace(job, spec=spec))
    return named


def _read_users(rows: Iterable[Row], groups: Groups, items: ImportItems) -> None:
    for row in rows:
        name = row.text("username").strip()
        try:
            check_user_name(name)
        except Problem as problem:
            items.findings.append(row.finding(Verdict.LEFT_OUT, "username", str(problem)))
            continue
        is_administrator = row.number("role") == Role.ADMINISTRATOR
        app_ids = () if is_administrator else _permitted(row, groups, items)
        if not (is_administrator or app_ids):
            words = f"{name} may see no app; the user is left out"
            items.findings.append(row.finding(Verdict.LEFT_OUT, "permission", words))
            continue
        role = Role.ADMINISTRATOR if is_administrator else Role.OPERATOR
        items.users.append(ImportedUser(source_id=row.id, name=name, role=role, app_ids=app_ids))


def _permitted(row: Row, groups: Groups, items: ImportItems) -> tuple[int, ...]:
    app_ids = []
    for part in filter(None, (part.strip() for part in row.text("permission").split(","))):
        group = int(part) if part.isascii() and part.isdecimal() else 0
        if group in groups.names:
            app_ids.append(group)
        else:
            words = "there is no such group; dropped"
            items.findings.append(row.finding(Verdict.DIFFERS, "permission", words, part))
    return tuple(dict.fromkeys(app_ids))


def _read_days(
    rows: Iterable[Row], items: ImportItems, zone: ZoneInfo, datetimes: ZoneInfo
) -> None:
    unended = 0
    for row in rows:
        day = row.wall_time("trigger_day")
        if day is not None and datetimes.key != zone.key:
            day = day.replace(tzinfo=datetimes).astimezone(zone)
        if day is None:
            words = "no day"
            items.findings.append(row.finding(Verdict.LEFT_OUT, "trigger_day", words))
            continue
        running, succeeded, failed = (
            max(0, row.number(f"{name}_count")) for name in ("running", "suc", "fail")
        )
        unended += running
        items.days.append(
            ImportedDay(
                source_id=row.id, day=day.date(), succeeded=succeeded, failed=failed + running
            )
        )
    if unended:
        items.findings.append(
            Finding(
                verdict=Verdict.DIFFERS,
                table=REPORT,
                id=0,
                column="running_count",
                value=str(unended),
                words="these runs never ended there; their days count them as failed",
            )
        )


def _only(items: ImportItems, app: str, where: str) -> ImportItems:
    """Return one app and its jobs; users and day reports belong to no single app."""
    apps = [app_item for app_item in items.apps if app_item.spec.name == app]
    if not apps:
        raise CommandError(f"{where} has no app {app}")
    group_ids = {apps[0].source_id, *apps[0].merged_ids}
    jobs = [job for job in items.jobs if job.spec.app == app]
    job_ids = {job.source_id for job in jobs}
    kept = {GROUP: group_ids, INFO: job_ids}
    findings = [
        app_item for app_item in items.findings if app_item.id in kept.get(app_item.table, {0})
    ]
    findings += [
        Finding(
            verdict=Verdict.DIFFERS,
            table=INFO,
            id=job.source_id,
            column="child_jobid",
            value=str(child),
            words="of another app; linked when that is imported too",
        )
        for job in jobs
        for child in job.child_ids
        if child not in job_ids
    ]
    others = [job for job in items.jobs if job.spec.app != app]
    return replace(items, apps=apps, jobs=jobs, others=others, users=[], days=[], findings=findings)
