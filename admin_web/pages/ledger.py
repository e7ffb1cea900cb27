"""The reconciliation page: what happened at every due time of each job, for a range of days.

A tally takes time in proportion to its job's ticks, too long for a page. So a page shows what is
known, and how old that is. One thread works while there is something to do, in stretches of up to a
day. Each is a short transaction, followed by a pause as long as it took, because pages come first.
"""

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import structlog
from flask import Response, render_template, request
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from wtforms import SelectField, StringField
from wtforms.validators import Length, Optional

from warren.admin_web import exports
from warren.admin_web.forms.console_form import AppFilterForm, DayField, select_choices
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import id_argument, route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.audit.integrity_check import audit_job
from warren.scheduler.audit.tally import COUNTS, JobTally
from warren.sql.engine import Database
from warren.sql.explanation import Explanation
from warren.sql.instants import DAY_MS, HOUR_MS
from warren.sql.jobs.job_names import NamedJob
from warren.sql.listings import ledger
from warren.sql.listings.ledger import LedgerFilter, SkippedFor
from warren.sql.registry.apps import ids_by_name

#: How much time one transaction covers: at first, and at most. A day of a job that is due each
#: second took 4.6 s on a busy machine, and the console limits transactions to 5 s.
INITIAL_STRETCH_MS, MAX_STRETCH_MS = 6 * HOUR_MS, DAY_MS
#: A faster stretch is followed by one twice as long, a slower one by one of the first length.
QUICK_SECONDS, SLOW_SECONDS = 0.2, 1.0
#: How long a tally is used before it is computed again, and how many are kept.
FRESH_MS = 60_000
KEPT = 1_000
#: The most tallies in the queue; the oldest is dropped first.
WAITING = 100
MAX_REST_SECONDS = 1.0

log = structlog.get_logger()


class TallyKey(NamedTuple):
    """One job's tally for the due times in (after, until]; `until_ms` None = up to now."""

    job_id: int
    after_ms: int
    until_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedTally:
    """A tally and why due times were skipped, as of `at_ms`; None = computing it failed."""

    at_ms: int
    tally: JobTally | None
    reasons: dict[Explanation, SkippedFor]


class TallyCache:
    """Returns cached tallies and computes the others in the background; thread-safe.

    Args:
        database: where runs, skips and history are.
        now_ms: the database's clock.
        timezone: of jobs that name none.
        kept: the most tallies that are kept.
        waiting: the most tallies in the queue.

    """

    def __init__(
        self,
        database: Database,
        now_ms: Callable[[], int],
        timezone: Callable[[], str],
        *,
        kept: int = KEPT,
        waiting: int = WAITING,
    ) -> None:
        self._database = database
        self._now_ms = now_ms
        self._timezone = timezone
        self._kept_limit = kept
        self._waiting_limit = waiting
        self._lock = threading.Lock()
        self._known: OrderedDict[TallyKey, CachedTally] = OrderedDict()
        self._waiting: OrderedDict[TallyKey, None] = OrderedDict()
        self._is_working = False

    def ask(self, keys: Iterable[TallyKey]) -> dict[TallyKey, CachedTally | None]:
        """Return what is cached; missing and stale tallies are computed for a later call."""
        now_ms = self._now_ms()
        with self._lock:
            answers = {key: self._known.get(key) for key in keys}
            for key, cached in answers.items():
                if cached is None or now_ms - cached.at_ms > FRESH_MS:
                    self._waiting.setdefault(key)
            while len(self._waiting) > self._waiting_limit:
                self._waiting.popitem(last=False)
            if self._waiting and not self._is_working:
                self._is_working = True
                threading.Thread(target=self._work, name="tally cache", daemon=True).start()
        return answers

    def _work(self) -> None:
        while (key := self._next()) is not None:
            try:
                cached = self._compute(key)
            except Exception as error:  # noqa: BLE001 - the top of a loop
                log.warning("tally_not_computed", job_id=key.job_id, error=str(error))
                cached = CachedTally(at_ms=self._now_ms(), tally=None, reasons={})
            with self._lock:
                self._known[key] = cached
                self._waiting.pop(key, None)
                while len(self._known) > self._kept_limit:
                    self._known.popitem(last=False)

    def _next(self) -> TallyKey | None:
        with self._lock:
            key = next(iter(self._waiting), None)
            self._is_working = key is not None
            return key

    def _compute(self, key: TallyKey) -> CachedTally:
        now_ms = self._now_ms()
        until_ms = now_ms if key.until_ms is None else min(key.until_ms, now_ms)
        tally = self._tally(key.job_id, key.after_ms, until_ms)
        reasons = self._database.read(
            lambda session: ledger.skip_reasons(session, key.job_id, (key.after_ms, until_ms))
        )
        return CachedTally(at_ms=now_ms, tally=tally, reasons=reasons)

    def _tally(self, job_id: int, start_ms: int, until_ms: int) -> JobTally | None:
        whole: JobTally | None = None
        length_ms = INITIAL_STRETCH_MS
        while start_ms < until_ms:
            end_ms = min(start_ms + length_ms, until_ms)
            began = time.monotonic()
            part = self._stretch(job_id, (start_ms, end_ms))
            spent = time.monotonic() - began
            if part is None:
                return None
            if whole is None:
                whole = part
            else:
                whole.merge(part)
            start_ms = end_ms
            length_ms = _next_length_ms(length_ms, spent)
            time.sleep(min(spent, MAX_REST_SECONDS))
        return whole

    def _stretch(self, job_id: int, bounds: tuple[int, int]) -> JobTally | None:
        def read(session: Session) -> JobTally | None:
            return audit_job(session, job_id, bounds, self._timezone())

        return self._database.read(read)


def _next_length_ms(length_ms: int, spent_seconds: float) -> int:
    if spent_seconds > SLOW_SECONDS:
        return INITIAL_STRETCH_MS
    return min(length_ms * 2, MAX_STRETCH_MS) if spent_seconds < QUICK_SECONDS else length_ms


LINES = 20
MAX_DAYS = 31
_DAYS = {"1": 1, "7": 7, "30": 30}


class LedgerForm(AppFilterForm):
    """Asks for jobs and days."""

    range = SelectField(
        lazy_gettext("Range"),
        choices=select_choices(
            [
                ("1", lazy_gettext("today")),
                ("7", lazy_gettext("7 days")),
                ("30", lazy_gettext("30 days")),
                ("custom", lazy_gettext("custom")),
            ]
        ),
        default="1",
    )
    since = DayField(lazy_gettext("From date"), [Optional()])
    until = DayField(lazy_gettext("To date"), [Optional()])
    name = StringField(lazy_gettext("Job"), [Optional(), Length(max=255)])


class LedgerPages:
    """The jobs of the visitor's apps, for everybody."""

    name = "ledger"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._tallies = TallyCache(services.database, services.now_ms, services.cluster_zone)

    @route("/ledger", Right.VIEW)
    def index(self) -> Response | str | tuple[str, int]:
        """Show the tallies of a page of jobs, as far as they have been computed."""
        form, known = LedgerForm(request.args), visitor()
        form.set_apps(self._services.database.read(partial(ids_by_name, app_ids=known.app_ids)))
        if not form.validate() or not _is_range(form, self._today()):
            return render_template("pages/ledger.html", form=form, rows=[], next=None), 422
        wanted = LedgerFilter(
            app_ids=known.app_ids,
            app=form.app.data or None,
            name=form.name.data or None,
            after_id=id_argument("after") or 0,
            limit=LINES + 1,
        )
        tallies = self._services.database.read(lambda session: ledger.jobs(session, wanted))
        after_ms, until_ms = self._bounds(form)
        questions = [TallyKey(job.id, after_ms, until_ms) for job in tallies[:LINES]]
        answers = self._tallies.ask(questions)
        rows = [
            (job, answers[question])
            for job, question in zip(tallies[:LINES], questions, strict=True)
        ]
        if exports.is_asked():
            return exports.answer(
                "reconciliation", ("job_id", "app", "job", *COUNTS), map(_line, rows)
            )
        return render_template(
            "pages/ledger.html",
            form=form,
            rows=rows,
            next=tallies[LINES - 1].id if len(tallies) > LINES else None,
            is_pending=any(answer is None for answer in answers.values()),
            is_complete=all(answer and answer.tally for answer in answers.values()),
            totals=_totals(answers.values()),
        )

    def _bounds(self, form: LedgerForm) -> tuple[int, int | None]:
        """Return the range as (after, until] in milliseconds; None = up to now."""
        if form.range.data == "custom" and form.since.data and form.until.data:
            end = self._midnight_ms(form.until.data + timedelta(days=1))
            return self._midnight_ms(form.since.data) - 1, end - 1
        days = _DAYS.get(form.range.data or "", 1)
        return self._midnight_ms(self._today() - timedelta(days=days - 1)) - 1, None

    def _today(self) -> date:
        zone = ZoneInfo(self._services.timezone)
        return datetime.fromtimestamp(self._services.now_ms() / 1000, zone).date()

    def _midnight_ms(self, day: date) -> int:
        midnight = datetime.combine(day, datetime.min.time(), ZoneInfo(self._services.timezone))
        return int(midnight.timestamp() * 1000)


def _line(row: tuple[NamedJob, CachedTally | None]) -> dict[str, Any]:
    """Return a job as a row of a file; its counts are None until they are computed."""
    job, answer = row
    tally = answer.tally if answer else None
    counts = {name: getattr(tally, name, None) for name in COUNTS}
    return {"job_id": job.id, "app": job.app, "job": job.name} | counts


def _totals(answers: Iterable[CachedTally | None]) -> Counter[str]:
    """Return the sums of the computed tallies."""
    sums = Counter(dict.fromkeys(COUNTS, 0))
    for answer in answers:
        if answer and answer.tally:
            sums.update({name: getattr(answer.tally, name) for name in COUNTS})
    return sums


def _is_range(form: LedgerForm, today: date) -> bool:
    """Return whether the dates are a valid range; if not, show why beside the field."""
    if form.range.data != "custom":
        return True
    since, until = form.since.data, form.until.data
    if since is None or until is None:
        missing = form.since if since is None else form.until
        missing.errors = [gettext("Choose a date.")]
        return False
    if not timedelta() <= until - since < timedelta(days=MAX_DAYS):
        form.until.errors = [gettext("Choose a range of 1 to 31 days.")]
        return False
    # Future days have nothing to reconcile; the other limits are those of times in the database.
    if since > today or since.year < 1971 or until.year > 9000:  # noqa: PLR2004
        form.since.errors = [gettext("Choose a date.")]
        return False
    return True
