"""`warren import xxl-job`: reads, reports, and writes unless it is a dry run.

The source is a database, given by its URL, or a dump, given by its path. Jobs that are kept in a
repository are written to a job file. With `--runs`, finished rows of `xxl_job_log` become runs.
"""

import html
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from warren.broker.messages import cut_message
from warren.database_access import open_database
from warren.errors import CommandError
from warren.importing.foreign import is_url, open_foreign, print_job_file
from warren.importing.xxl_job.cut_over import QUIET_SECONDS, CutOver, OpenRun
from warren.importing.xxl_job.mapping import read_items
from warren.importing.xxl_job.source_tables import (
    INFO,
    LOG,
    OK,
    RULES,
    TIMED_OUT,
    Row,
    check_tables,
    datetime_zone,
    zone_for_past,
)
from warren.importing.xxl_job.sources import DumpSource, LiveSource
from warren.jobfile.export import job_file
from warren.local_client import context_on
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.cron.wall_clock import check_zone, load_zone
from warren.scheduler.imports.importer import Importer, ImportOptions
from warren.scheduler.imports.items import (
    Finding,
    ImportAction,
    ImportedJob,
    ImportedRun,
    ImportItems,
    Outcome,
    Verdict,
    counted,
)
from warren.settings.settings import Settings
from warren.sql.instants import epoch_ms, iso
from warren.sql.run_status import RunStatus
from warren.terminal.output import print_json, visible, warn

_IMPORTANT = (
    ImportAction.CONFLICT,
    ImportAction.DELETED,
    ImportAction.LEFT_OUT,
    ImportAction.START,
    ImportAction.STOP,
)
#: How much the clocks of two servers may differ.
_AHEAD_MS = 300_000
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
#: The tags that XXL-JOB itself writes.
_OWN_TAG = re.compile(r"<br\s*/?>|</?span\b[^<>]{0,200}>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


@contextmanager
def open_source(
    place: str, password_file: Path | None, settings: Settings
) -> Iterator[LiveSource | DumpSource]:
    """Yield the tables of a database or a dump.

    Raises:
        CommandError: the URL contains a password, others could read the connection, or the dump is
            incomplete.

    """
    if not is_url(place):
        with closing(DumpSource(Path(place))) as dump:
            yield dump
        return
    with open_foreign(place, password_file, settings) as database:
        yield LiveSource(database)


def lines_of(items: ImportItems) -> Iterator[str]:
    """Yield the lines of a job file with every valid job; applying it starts none."""
    sound = _sound(items)
    specs = [
        replace(
            job.spec,
            children=tuple(_name(sound[child], job) for child in job.child_ids if child in sound),
        )
        for job in sound.values()
    ]
    return job_file([app.spec for app in items.apps], specs)


def findings_about(items: ImportItems) -> Iterator[Finding]:
    """Yield the findings for a job file; it does not contain the jobs that would be stopped."""
    for finding in items.findings:
        if finding.verdict is Verdict.STOPPED:
            words = f"{finding.words}; the job is not in the file"
            yield replace(finding, verdict=Verdict.LEFT_OUT, words=words)
        else:
            yield finding
    sound = _sound(items)
    absent = {job.source_id for job in items.jobs} - sound.keys()
    for job in sound.values():
        for child in job.child_ids:
            if child in absent:
                yield Finding(
                    verdict=Verdict.DIFFERS,
                    table=INFO,
                    id=job.source_id,
                    column="child_jobid",
                    value=str(child),
                    words=f"job {child} is not in the file; dropped",
                )


def _sound(items: ImportItems) -> dict[int, ImportedJob]:
    return {job.source_id: job for job in items.jobs if not job.stop_reasons}


def _name(child: ImportedJob, parent: ImportedJob) -> str:
    name = child.spec.name
    return name if child.spec.app == parent.spec.app else f"{child.spec.app}/{name}"


#: The length of the column for a source's name.
_MAX_SOURCE_LENGTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlJobImportOptions:
    """The options of `warren import xxl-job`."""

    place: str
    timezone: str
    datetime_timezone: str | None
    source: str
    app: str | None
    runs: int
    password_file: Path | None
    passwords: Path | None
    dry_run: bool
    as_file: bool
    overwrite: bool
    keep_handlers: bool
    take_over: bool
    again: bool
    give_back: bool
    watch: float | None
    wait: float
    as_json: bool


def import_xxl_job(settings: Settings, options: XxlJobImportOptions) -> None:
    """Import, or show what an import would do."""
    check_zone(options.timezone)
    zone = load_zone(options.timezone)
    _check(options)
    if options.give_back:
        _give_back(settings, options)
        return
    with open_source(options.place, options.password_file, settings) as source:
        now_ms = time.time_ns() // 1_000_000
        check_tables(source.columns(), source.name)
        given = options.datetime_timezone
        datetimes = load_zone(given) if given else datetime_zone(source, zone)
        cut_over = _cut_over(source, datetimes, options)
        left = cut_over.wait() if cut_over else []
        items = read_items(
            source,
            zone=zone,
            now_ms=now_ms,
            app=options.app,
            datetimes=datetimes,
            keeps_handlers=options.keep_handlers,
        )
        if cut_over:
            cut_over.check()
        if datetimes.key != zone.key:
            items.findings[:0] = [_about_datetimes(datetimes)]
        if isinstance(source, DumpSource) and source.is_narrow:
            items.findings[:0] = [_NARROW]
        if options.as_file:
            findings = [finding_line(each) for each in findings_about(items) if each.words]
            print_job_file(lines_of(items), findings)
            return
        with open_database(settings, for_writing=not options.dry_run) as database:
            _import(context_on(database, settings), options, items, source, datetimes)
    print_open_runs(left, as_json=options.as_json)


def _check(options: XxlJobImportOptions) -> None:
    """Raise UsageError for options that do not go together."""
    if not 0 < len(options.source) <= _MAX_SOURCE_LENGTH:
        words = f"expected --source to be a name of up to {_MAX_SOURCE_LENGTH} characters"
        raise click.UsageError(f"{words}, got: {options.source[: _MAX_SOURCE_LENGTH + 1]!r}")
    if options.take_over and (options.as_file or not is_url(options.place)):
        raise click.UsageError("--take-over needs XXL-JOB's database itself, and no --print")
    if options.take_over and options.give_back:
        raise click.UsageError("expected --take-over or --give-back, got both")
    of_take_over = {
        "--watch": options.watch is not None,
        "--wait": options.wait > 0,
        "--again": options.again,
    }
    for name, is_given in of_take_over.items():
        if is_given and not options.take_over:
            raise click.UsageError(f"{name} needs --take-over")


def _cut_over(
    source: LiveSource | DumpSource, datetimes: ZoneInfo, options: XxlJobImportOptions
) -> CutOver | None:
    if not (options.take_over and isinstance(source, LiveSource)):
        return None
    return CutOver(
        source,
        datetimes,
        quiet_seconds=options.watch or QUIET_SECONDS,
        wait_seconds=options.wait,
        report=warn,
    )


def _give_back(settings: Settings, options: XxlJobImportOptions) -> None:
    with open_database(settings, for_writing=not options.dry_run) as database:
        context = context_on(database, settings)
        how = ImportOptions(source=options.source, overwrite=False, today=date.min)
        stopped = Importer(context, how).give_back(is_preview=options.dry_run)
    print_outcomes(stopped, as_json=options.as_json, is_preview=options.dry_run)


_NARROW = Finding(
    verdict=Verdict.DIFFERS,
    table=INFO,
    id=0,
    column="name",
    value="utf8mb3",
    words="in a dump of this character set, emoji and rare characters of all texts are ?; "
    "use mysqldump --default-character-set=utf8mb4",
)


def _about_datetimes(zone: ZoneInfo) -> Finding:
    return Finding(
        verdict=Verdict.DIFFERS,
        table=LOG,
        id=0,
        column="trigger_time",
        value=str(zone),
        words="DATETIMEs are in this time zone there; they are converted",
    )


def _import(
    context: CommandContext,
    options: XxlJobImportOptions,
    items: ImportItems,
    source: LiveSource | DumpSource,
    datetimes: ZoneInfo,
) -> None:
    zone, now_ms = load_zone(options.timezone), context.now_ms()
    how = ImportOptions(
        source=options.source,
        overwrite=options.overwrite,
        today=datetime.fromtimestamp(now_ms / 1_000, zone).date(),
        store_passwords=None if options.dry_run else _password_writer(options.passwords),
        take_over=options.take_over,
        again=options.again,
    )
    importer = Importer(context, how)
    outcomes = importer.preview(items) if options.dry_run else importer.write(items)
    print_findings(items.findings, as_json=options.as_json)
    print_outcomes(outcomes, as_json=options.as_json, is_preview=options.dry_run)
    if options.runs:
        reader = RunReader(datetimes, options.runs, now_ms, {job.source_id for job in items.jobs})
        run_chunks = reader.read(source)
        bring_in = importer.preview_runs if options.dry_run else importer.write_runs
        counts = bring_in(run_chunks)
        print_runs(
            {
                "runs": counts.added,
                "already imported": counts.known,
                "id taken": counts.taken,
                "not over": reader.unfinished,
                "of other jobs": reader.foreign,
            },
            as_json=options.as_json,
            is_preview=options.dry_run,
        )


def _password_writer(path: Path | None) -> Callable[[Mapping[str, str]], None] | None:
    """Return a function that writes passwords into a new file that only its owner may read."""
    if path is None:
        return None
    if path.exists():
        raise CommandError(f"{path}: expected a file that does not exist yet, for passwords")
    if not os.access(path.absolute().parent, os.W_OK | os.X_OK):
        raise CommandError(f"{path}: expected a file in a writable folder")

    def write(passwords: Mapping[str, str]) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{name} {password}\n" for name, password in passwords.items())
            file.flush()
            os.fsync(file.fileno())

    return write


def print_findings(findings: Iterable[Finding], *, as_json: bool) -> None:
    """Print every finding as JSON, or the important ones as lines, with counts."""
    listed = list(findings)
    for finding in listed:
        if as_json:
            print_json({"type": "finding", **asdict(finding)})
        elif finding.verdict is not Verdict.SAME:
            print(visible(finding_line(finding)))
    if not as_json:
        counts = counted(listed)
        print("found: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))


def finding_line(finding: Finding) -> str:
    """Return a finding as one line: the verdict, its place, and the reason."""
    place = f"{finding.table} {finding.id}" if finding.id else finding.table
    value = f" {finding.value!r}" if finding.value else ""
    return f"{finding.verdict:8}  {place} {finding.column}{value}: {finding.words}"


def _outcome_json(outcome: Outcome) -> dict[str, object]:
    facts = asdict(outcome)
    return {"type": "outcome", "did": facts.pop("action"), **facts}


def print_outcomes(outcomes: Sequence[Outcome], *, as_json: bool, is_preview: bool) -> None:
    """Print every outcome as JSON, or the important ones as lines, with counts."""
    for outcome in outcomes:
        if as_json:
            print_json(_outcome_json(outcome))
        elif outcome.action in _IMPORTANT or outcome.words:
            words = f": {outcome.words}" if outcome.words else ""
            print(visible(f"{outcome.action:8}  {outcome.what} {outcome.name}{words}"))
    if as_json:
        return
    for what, counts in _by_what(outcomes).items():
        counts_text = ", ".join(f"{count} {did}" for did, count in counts.items())
        print(f"{'would be' if is_preview else 'done'}: {what}s: {counts_text}")


def print_runs(counts: Mapping[str, int], *, as_json: bool, is_preview: bool) -> None:
    """Print how many runs were imported, and how many were left out and why."""
    if as_json:
        print_json({"type": "runs", **counts})
        return
    added, *left = counts.items()
    words = ", ".join(f"{count} {what}" for what, count in left if count)
    verb = "would be imported" if is_preview else "imported"
    print(f"runs: {added[1]} {verb}" + (f"; left out: {words}" if words else ""))


def print_open_runs(runs: Sequence[OpenRun], *, as_json: bool) -> None:
    """Print the runs whose result will be lost: each as JSON, or as lines, with counts."""
    for run in runs:
        if as_json:
            print_json({"type": "open_run", **asdict(run)})
        else:
            place = f"run {run.run_id} of job {run.job_id} at {run.address or 'no address'}"
            print(visible(f"{run.pending:9}  {place}, since {run.since}: {run.words}"))
    if runs and not as_json:
        counts = Counter(run.pending for run in runs)
        counts_text = ", ".join(f"{count} {pending}" for pending, count in counts.items())
        print(f"not over in XXL-JOB: {counts_text}")


def _by_what(outcomes: Iterable[Outcome]) -> dict[str, Counter[ImportAction]]:
    counts: dict[str, Counter[ImportAction]] = {}
    for outcome in outcomes:
        counts.setdefault(outcome.what, Counter())[outcome.action] += 1
    return counts


@dataclass(slots=True)
class RunReader:
    """Reads the runs of the last days of these jobs; counts those it leaves out."""

    zone: ZoneInfo
    days: int
    now_ms: int
    job_ids: Collection[int]
    unfinished: int = field(default=0, init=False)
    foreign: int = field(default=0, init=False)

    def read(self, source: LiveSource | DumpSource) -> Iterator[ImportedRun]:
        """Yield the finished runs."""
        columns = [name for name in source.columns()[LOG] if name in RULES[LOG]]
        now = datetime.fromtimestamp(self.now_ms / 1_000, UTC)
        since = now - timedelta(days=self.days)
        there = since.astimezone(self.zone).replace(tzinfo=None, microsecond=0)
        for values in source.runs(columns, there):
            row = Row.of(LOG, values)
            at = row.utc("trigger_time", self.zone)
            if at is None or at < since.replace(tzinfo=None):
                continue
            self._check_past(row, at)
            status = status_of(row.number("trigger_code"), row.number("handle_code"))
            if status is None:
                self.unfinished += 1
            elif row.number("job_id") not in self.job_ids:
                self.foreign += 1
            else:
                yield self._run(row, status, at)

    def _check_past(self, row: Row, at: datetime) -> None:
        if epoch_ms(at) <= self.now_ms + _AHEAD_MS:
            return
        wall = row.wall_time("trigger_time")
        assert wall is not None
        raise CommandError(
            f"run {row.id} is in the future: {LOG}.trigger_time {wall} is {iso(epoch_ms(at))} in "
            f"{self.zone}; tell the time zone of DATETIMEs there (JDBC's serverTimezone) by "
            f"--datetime-timezone, it is probably {zone_for_past(wall, self.now_ms)}"
        )

    def _run(self, row: Row, status: RunStatus, at: datetime) -> ImportedRun:
        triggered_ms = epoch_ms(at)
        ended = row.utc("handle_time", self.zone)
        return ImportedRun(
            source_id=row.id,
            job_id=row.number("job_id"),
            status=status,
            codes=(row.number("trigger_code"), row.number("handle_code")),
            address=row.line("executor_address")[:255],
            handler=row.line("executor_handler")[:255],
            param=row.text("executor_param"),
            sharding=row.line("executor_sharding_param")[:20],
            triggered_ms=triggered_ms,
            finished_ms=max(triggered_ms, epoch_ms(ended) if ended else triggered_ms),
            trigger_message=plain(row.text("trigger_msg")),
            message=_message(row.text("handle_msg")),
        )


def status_of(trigger_code: int, handle_code: int) -> RunStatus | None:
    """Return how a run ended; None if it has not."""
    if handle_code == OK:
        return RunStatus.SUCCEEDED
    if handle_code == TIMED_OUT:
        return RunStatus.TIMED_OUT
    if handle_code:
        return RunStatus.FAILED
    return None if trigger_code in (0, OK) else RunStatus.UNDELIVERED


def _message(text: str) -> str:
    """Return a result as plain text if XXL-JOB has marked it up; otherwise unchanged."""
    return plain(text) if _OWN_TAG.search(text) else cut_message(text)


def plain(marked: str) -> str:
    """Return XXL-JOB's HTML as plain text."""
    return cut_message(html.unescape(_TAG.sub("", _BREAK.sub("\n", marked))).strip())
