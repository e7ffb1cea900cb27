"""Run logs, read from the executors that have them: as a page, for its script, and as a file.

What no executor has, or answers for, is read from the log store, if there is one.

A request occupies a thread of the console until its answer arrives. So only few run at a time,
fewer to one executor, and an executor that did not answer is not asked again for a while: a slow
one cannot block the whole console.

Terminal colours become CSS classes. Only foreground colours and styles like bold are kept; other
escape sequences are removed, as `shown` does. Each line begins without colours.
"""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeVar
from zoneinfo import ZoneInfo

import structlog
from flask import Response, get_template_attribute, jsonify, render_template, request
from flask_babel import gettext
from sqlalchemy.orm import Session

from warren.admin_web.local_times import LocalTimes
from warren.admin_web.services import ConsoleServices
from warren.admin_web.visitors import Visitor
from warren.broker.errors import Malformed
from warren.broker.log_blocks import PackedLog
from warren.broker.log_lines import last_state, shown, shown_text, whole_lines
from warren.broker.messages import Boot, LogChunk, ReadLog
from warren.broker.rpc import AddressedQuestion, Requester
from warren.scheduler.completion.end import identity_of
from warren.scheduler.log_store.store import StoredLogs, StoreUnavailable
from warren.sql.instants import moment
from warren.sql.listings import recent
from warren.sql.registry import presence
from warren.sql.run_status import OPEN, RunStatus
from warren.sql.runs import stored_logs
from warren.sql.runs.run_rows import DetailedRun
from warren.sql.runs.stored_logs import LogRow, LogState

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Which log to read and where it is; an empty `boot_id` = no executor has it.

    `heard_at_ms` is the executor's last heartbeat, in epoch milliseconds; 0 = it is not registered.
    `stored` is what is known of it in the log store. `is_over`: the run has ended.
    """

    run_id: int
    app: str
    address: str
    boot_id: str
    scheduled_at_ms: int
    heard_at_ms: int
    identity: int = 0
    stored: LogRow | None = None
    is_over: bool = True


def log_source(session: Session, run: DetailedRun, *, with_store: bool) -> Source:
    """Return where a run's log is; `with_store`: in the log store too.

    After a restart, the new boot at the same address serves the old logs.
    """
    identity = identity_of(run)
    app, address = run.app or "", run.address or ""
    boot_id, heard_at_ms = "", 0
    if app and address:
        last = presence.last_beat(session, presence.EXECUTOR, app, address)
        boot_id, heard_at_ms = last or (run.boot_id or "", 0)
    return Source(
        run_id=run.id,
        app=app,
        address=address,
        boot_id=boot_id,
        scheduled_at_ms=run.scheduled_at,
        heard_at_ms=heard_at_ms,
        identity=identity,
        stored=stored_logs.find(session, run.id, identity) if with_store else None,
        is_over=run.status not in OPEN,
    )


#: How many of the console's six threads may wait for executors, and for one executor.
AT_A_TIME, OF_ONE = 3, 2
ANSWER_SECONDS = 1.5
#: Seconds until an executor that did not answer is asked again.
PAUSE_SECONDS = 2.0


class ReadStatus(StrEnum):
    """The outcome of asking for a log."""

    #: The executor answered, perhaps without lines.
    LINES = "LINES"
    #: The executor no longer has the log.
    MISSING = "MISSING"
    #: The executor is gone, or did not answer in time.
    SILENT = "SILENT"
    #: Too many requests are running.
    BUSY = "BUSY"
    #: No executor has it, and the log store does not answer.
    STORE_AWAY = "STORE_AWAY"
    #: No executor has it, and the log store, which had it, has lost or damaged it.
    STORE_LOST = "STORE_LOST"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Lines of a log from `from_line` (1-based) on; `is_end`: there are currently no more.

    `times` are pairs of a line number and the epoch milliseconds from that line on, 0 = unknown.
    `is_stored`: they are from the log store.
    """

    status: ReadStatus
    from_line: int = 1
    lines: tuple[str, ...] = ()
    is_end: bool = False
    times: tuple[tuple[int, int], ...] = ()
    is_stored: bool = False

    @property
    def line_times(self) -> list[int]:
        """When each line was written, in epoch milliseconds; 0 = unknown."""
        since = dict(self.times)
        times: list[int] = []
        for line in range(self.from_line, self.next_line):
            times.append(since.get(line, times[-1] if times else 0))
        return times

    @property
    def next_line(self) -> int:
        """The number of the line after these."""
        return self.from_line + len(self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMatches:
    """The numbers of the lines up to `to_line` that contain the words."""

    status: ReadStatus
    lines: tuple[int, ...] = ()
    to_line: int = 0
    is_end: bool = False


#: What is asked for in the log store: as an executor's place among those that are asked.
_STORE = ("", "log store")
T = TypeVar("T")


class LogReader:
    """Reads run logs from the executors that have them, or else from the log store.

    Args:
        requester: None = without a broker; then no executor answers.
        clock: monotonic seconds.
        stored: None = there is no log store.

    """

    def __init__(
        self,
        requester: Requester | None,
        clock: Callable[[], float] = time.monotonic,
        stored: StoredLogs | None = None,
    ) -> None:
        self._requester = requester
        self._stored = stored
        self._clock = clock
        self._changed = threading.Condition()
        self._asking: Counter[tuple[str, str]] = Counter()
        self._silent_until: dict[tuple[str, str], float] = {}

    def read(
        self,
        source: Source,
        from_line: int,
        *,
        limit: int,
        at_end: bool = False,
        wait_seconds: float = 0.0,
    ) -> LogPart:
        """Return up to `limit` lines from a line on, or the last ones.

        Wait up to `wait_seconds` for a place if too many requests are running.
        """
        question = _question(source, from_line, limit, at_end=at_end)
        part = _part_of(self._ask(source, question, wait_seconds), from_line, limit)
        # The executor of a run that is running knows best that there is no more.
        is_more = part.lines or not part.is_end or not source.is_over
        is_answer = part.status is ReadStatus.LINES and is_more
        if is_answer or part.status is ReadStatus.BUSY:
            return part
        stored = self._of_store(
            source, lambda log: log.read(from_line, limit, at_end=at_end), wait_seconds
        )
        if stored is None:
            return part
        if isinstance(stored, ReadStatus):
            return part if part.status is ReadStatus.LINES else replace(part, status=stored)
        return LogPart(
            status=ReadStatus.LINES,
            from_line=stored.from_line,
            lines=tuple(stored.text.split("\n")) if stored.to_line >= stored.from_line else (),
            is_end=stored.is_end,
            times=stored.times,
            is_stored=True,
        )

    def search(self, source: Source, words: str, from_line: int) -> LogMatches:
        """Return the lines that contain the words, as far as one request searches."""
        question = _question(source, from_line, 1, find=words)
        found = _matches_of(self._ask(source, question, 0.0))
        is_answer = found.status is ReadStatus.LINES and (
            found.to_line >= from_line or not source.is_over
        )
        if is_answer or found.status is ReadStatus.BUSY:
            return found
        stored = self._of_store(source, lambda log: log.search(words, from_line), 0.0)
        if stored is None:
            return found
        if isinstance(stored, ReadStatus):
            return found if found.status is ReadStatus.LINES else replace(found, status=stored)
        return LogMatches(
            status=ReadStatus.LINES,
            lines=stored.lines,
            to_line=stored.to_line,
            is_end=stored.is_end,
        )

    def _ask(
        self, source: Source, question: AddressedQuestion, wait_seconds: float
    ) -> LogChunk | ReadStatus:
        """Return the executor's answer, or why there is none."""
        if self._requester is None or not source.boot_id:
            return ReadStatus.SILENT
        with self._place(_key(source), wait_seconds) as obstacle:
            if obstacle is not None:
                return obstacle
            try:
                chunk = self._requester.ask([question], ANSWER_SECONDS)[0]
            except ValueError:  # the address is a URL of XXL-JOB's, which has no queue
                chunk = None
            if isinstance(chunk, LogChunk) and chunk.run_id == source.run_id:
                return chunk
            self._rest(_key(source))
            return ReadStatus.SILENT

    def _of_store(
        self, source: Source, read: Callable[[PackedLog], T], wait_seconds: float
    ) -> T | ReadStatus | None:
        """Return what is read from a log in the store, or why nothing is; None = it has none."""
        if self._stored is None or source.stored is None:
            return None
        with self._place(_STORE, wait_seconds) as obstacle:
            if obstacle is not None:
                return ReadStatus.BUSY if obstacle is ReadStatus.BUSY else ReadStatus.STORE_AWAY
            try:
                opened = _opened(self._stored, source.stored)
                return None if opened is None else read(opened)
            except Malformed as error:
                log.warning("stored_log_damaged", run_id=source.run_id, error=str(error))
                return ReadStatus.STORE_LOST
            except StoreUnavailable as error:
                log.warning("stored_log_missed", error=str(error))
                self._rest(_STORE)
                return ReadStatus.STORE_AWAY

    def _rest(self, key: tuple[str, str]) -> None:
        """Do not ask there for a while."""
        with self._changed:
            self._silent_until[key] = self._clock() + PAUSE_SECONDS

    @contextmanager
    def _place(self, key: tuple[str, str], wait_seconds: float) -> Iterator[ReadStatus | None]:
        """Take one of the places, or yield why there is none."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._obstacle(key) is not ReadStatus.BUSY, timeout=wait_seconds
            )
            obstacle = self._obstacle(key)
            if obstacle is None:
                self._asking[key] += 1
        try:
            yield obstacle
        finally:
            if obstacle is None:
                with self._changed:
                    self._asking[key] -= 1
                    self._asking += Counter()  # drops zero counts
                    self._changed.notify_all()

    def _obstacle(self, key: tuple[str, str]) -> ReadStatus | None:
        now = self._clock()
        self._silent_until = {item: at for item, at in self._silent_until.items() if at > now}
        if key in self._silent_until:
            return ReadStatus.SILENT
        if self._asking[key] >= OF_ONE or self._asking.total() >= AT_A_TIME:
            return ReadStatus.BUSY
        return None


def _opened(store: StoredLogs, row: LogRow) -> PackedLog | None:
    """Return a log in the store; None if it has none yet.

    Raises:
        Malformed: it is damaged, or gone.
        StoreUnavailable: the store does not answer.

    """
    is_whole = row.state == LogState.STORED
    opened = store.open(row.key, 0 if is_whole else row.parts)
    if opened is None and is_whole:
        raise Malformed("it was stored, and is gone")
    return opened


def _part_of(chunk: LogChunk | ReadStatus, from_line: int, limit: int) -> LogPart:
    """Return an executor's answer as lines, or why there is none."""
    if isinstance(chunk, ReadStatus):
        return LogPart(status=chunk, from_line=from_line)
    if chunk.missing:
        return LogPart(status=ReadStatus.MISSING, from_line=chunk.from_line, is_end=True)
    lines = chunk.text.split("\n") if chunk.to_line >= chunk.from_line else []
    # No executor returns more, but whoever else has its key might.
    return LogPart(
        status=ReadStatus.LINES,
        from_line=chunk.from_line,
        lines=tuple(lines[:limit]),
        is_end=chunk.is_end and len(lines) <= limit,
        times=chunk.times[:limit],
    )


def _matches_of(chunk: LogChunk | ReadStatus) -> LogMatches:
    if isinstance(chunk, ReadStatus):
        return LogMatches(status=chunk)
    if chunk.found is None:  # an executor of an older version
        return LogMatches(status=ReadStatus.MISSING)
    return LogMatches(
        status=ReadStatus.LINES, lines=chunk.found, to_line=chunk.to_line, is_end=chunk.is_end
    )


def _key(source: Source) -> tuple[str, str]:
    return (source.app, source.address)


def _question(
    source: Source, from_line: int, limit: int, *, at_end: bool = False, find: str = ""
) -> AddressedQuestion:
    day = moment(source.scheduled_at_ms).date().isoformat()

    def build(question_id: str, reply_to: str) -> ReadLog:
        return ReadLog(
            question_id=question_id,
            reply_to=reply_to,
            run_id=source.run_id,
            scheduled_day=day,
            from_line=from_line,
            limit=limit,
            at_end=at_end,
            find=find,
            identity=source.identity,
        )

    return AddressedQuestion(Boot(source.app, source.address, source.boot_id), build)


#: When our executors wrote a line, with the distance of their clock from UTC.
_WRITTEN = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d{3})([+-]\d\d:\d\d)(?= [A-Z]+ )", re.ASCII
)
#: A time of day, perhaps with its date and zone, at the beginning of a line.
_TIME = re.compile(
    r"\s*\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"(?: ?Z| ?UTC| ?[+-]\d\d:?\d\d)?\]?:?\s*",
    re.ASCII,
)


def in_zone(line: str, zone: str) -> str:
    """Return a line with the time that our executors put before it in a zone, which is not named.

    Lines that a job wrote by itself, and those of older executors, stay as they are.
    """
    found = _WRITTEN.match(line)
    if found is None:
        return line
    try:
        at = datetime.fromisoformat(found[1] + found[3]).astimezone(ZoneInfo(zone))
    except (ValueError, OverflowError):
        return line
    return f"{at:%Y-%m-%d %H:%M:%S}{found[2]}{line[found.end() :]}"


def without_time(line: str) -> str:
    """Return a line without the time that it begins with, for comparing it with another run's."""
    return line[found.end() :] if (found := _TIME.match(line)) else line


#: CSS classes, separated by spaces, and the text that has them.
Piece = tuple[str, str]
_LOOKS = re.compile(r"\x1b\[([0-9;]{0,40})m")
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_WEIGHTS = {1: "bold", 2: "dim", 3: "italic", 4: "under"}
#: The styles that a code ends.
_ENDS = {22: {"bold", "dim"}, 23: {"italic"}, 24: {"under"}}
#: `38;5;n` and `38;2;r;g;b` name a colour by the numbers that follow.
_EXTENDED, _INDEXED, _TRUE_COLOUR = frozenset({38, 48}), 5, 2


def pieces(line: str) -> list[Piece]:
    """Return a line in pieces; one without colours is one piece without classes."""
    if "\x1b" not in line:
        return [("", shown(line))]
    text, style, at = last_state(line), _Style(), 0
    log_pieces: list[Piece] = []
    for code in _LOOKS.finditer(text):
        log_pieces.append((str(style), shown(text[at : code.start()])))
        style.apply(code[1])
        at = code.end()
    log_pieces.append((str(style), shown(text[at:])))
    return [piece for piece in log_pieces if piece[1]] or [("", "")]


class _Style:
    """The current colour and styles."""

    def __init__(self) -> None:
        self._colour = ""
        self._weights: set[str] = set()

    def apply(self, codes: str) -> None:
        """Apply the codes of an escape sequence."""
        numbers = iter([int(code or 0) for code in codes.split(";")])
        for number in numbers:
            if number in _EXTENDED:
                self._apply_extended(number, numbers)
            else:
                self._apply(number)

    def _apply(self, number: int) -> None:
        if number == 0:
            self._colour, self._weights = "", set()
        elif number in _WEIGHTS:
            self._weights.add(_WEIGHTS[number])
        elif number in _ENDS:
            self._weights -= _ENDS[number]
        elif number == 39:  # noqa: PLR2004 - the default colour
            self._colour = ""
        elif number in range(30, 38) or number in range(90, 98):
            self._colour = _NAMES[number % 10]

    def _apply_extended(self, number: int, numbers: Iterator[int]) -> None:
        """Apply one of the sixteen named colours; ignore all others."""
        kind = next(numbers, 0)
        values = [next(numbers, 0) for _ in range({_INDEXED: 1, _TRUE_COLOUR: 3}.get(kind, 0))]
        is_foreground = number == 38  # noqa: PLR2004 - SGR's code
        if is_foreground and kind == _INDEXED and values[0] < 2 * len(_NAMES):
            self._colour = _NAMES[values[0] % len(_NAMES)]

    def __str__(self) -> str:
        names = [f"ansi-{name}" for name in (self._colour, *sorted(self._weights)) if name]
        return " ".join(names)


#: Lines of one JSON answer, and of one that begins at the end of a log.
SCRIPT_LINES, END_LINES = 1_000, 200
#: Lines at the end of a log, and characters of each, that are compared with another log.
COMPARED_LINES, COMPARED_LENGTH = 2_000, 500
#: The most characters to search for.
MAX_WORDS_LENGTH = 200
#: A shorter run has one time for all its lines.
SHORT_MS = 1_000
#: No log has more lines, as it has at most 50 MB.
LAST_LINE = 50_000_000
#: How long a download waits for its next piece while pages are being served.
WAIT_SECONDS = 20.0
_KEPT = "[only the end of the log was kept; its executor {}]\n"
_WHY = {
    ReadStatus.MISSING: "no longer has the rest",
    ReadStatus.SILENT: "does not answer",
    ReadStatus.STORE_AWAY: "is gone, and the log store does not answer",
    ReadStatus.STORE_LOST: "is gone, and the log store has lost or damaged the rest",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLog:
    """The end of a log without times: its text, and the number of its first line.

    `is_there` is False if nobody could be asked; `is_kept`: it is the end that the run's row keeps.
    """

    text: str
    from_line: int
    is_there: bool
    is_kept: bool


@dataclass(frozen=True, slots=True)
class LogPlaceView:
    """Where the log of a run that has ended is, in words, and why it is not in the store."""

    words: str
    fault: str = ""


def log_place(session: Session, run: DetailedRun, now_ms: int) -> LogPlaceView | None:
    """Return where a log is, for an installation with a log store; None while its run is open."""
    if run.status in OPEN:
        return None
    row = stored_logs.find(session, run.id, identity_of(run))
    if row is not None and row.state == LogState.STORED:
        return LogPlaceView(gettext("It is in the log store."))
    if row is not None and row.state == LogState.DROPPED:
        return LogPlaceView(gettext("It was not stored:"), row.fault or "")
    last = presence.last_beat(session, presence.EXECUTOR, run.app or "", run.address or "")
    if last is None or now_ms - last[1] > presence.EXECUTOR_ALIVE_MS:
        return LogPlaceView(
            gettext(
                "Only its executor has it, and that is offline. It will be stored once the "
                "executor is back with its folders."
            )
        )
    return LogPlaceView(gettext("Only its executor has it so far."))


class LogPages:
    """Shows logs of runs that the visitor may see."""

    def __init__(self, services: ConsoleServices, reader: LogReader) -> None:
        self._services = services
        self._reader = reader
        self._limits = services.run_logs
        #: Held while a piece of a download is read: one at a time, as pages need the executors too.
        self._reading_piece = threading.Lock()
        self._local_times = LocalTimes(services.cluster_zone, services.now_ms)

    def show(self, known: Visitor, run_id: int) -> str:
        """Show a page of lines: from `line` on, or the end, or the beginning if it succeeded."""
        run, source = self._find(known, run_id)
        line = _line("line")
        # The error of a failed run is usually at the end.
        opens_at_end = run.status != RunStatus.SUCCEEDED or "end" in request.args
        part = self._reader.read(
            source, line or 1, limit=self._limits.page_lines, at_end=line is None and opens_at_end
        )
        earlier = max(1, part.from_line - self._limits.page_lines)
        return render_template(
            "pages/run_log.html",
            run=run,
            part=part,
            lines=self._pieces_of(part),
            times=self._times(run, part),
            is_at_end=line is None and opens_at_end,
            kept=self.in_zone(_kept(run, part)),
            now_ms=self._services.now_ms(),
            is_open=run.status in OPEN,
            earlier=earlier if part.from_line > 1 else None,
            further=None if part.is_end or not part.lines else part.next_line,
        )

    def lines(self, known: Visitor, run_id: int) -> Response:
        """Return the lines from `from` on, or with `end` the last ones, as JSON.

        `state` is HTML. `times` are in the viewer's zone, `stamps` the same in epoch milliseconds.
        """
        run, source = self._find(known, run_id)
        line = _line("from")
        at_end = line is None and "end" in request.args
        limit = END_LINES if at_end else SCRIPT_LINES
        part = self._reader.read(source, line or 1, limit=limit, at_end=at_end)
        badge = get_template_attribute("macros/badge.html", "status")
        bar = get_template_attribute("macros/runs.html", "bar")
        return jsonify(
            answer=part.status,
            first=part.from_line,
            next=part.next_line,
            lines=[_for_script(line) for line in self._pieces_of(part)],
            times=self._times(run, part),
            stamps=_stamps(run, part),
            is_end=part.is_end,
            # Read before the executor was asked: if the run was over then, the log is complete.
            is_open=run.status in OPEN,
            state=str(badge(run.status)) + str(bar(run, self._services.now_ms())),
        )

    def in_zone(self, lines: Iterable[str]) -> list[str]:
        """Return lines with the times of our executors in the viewer's zone."""
        zone = self._local_times.zone()
        return [in_zone(line, zone) for line in lines]

    def _pieces_of(self, part: LogPart) -> list[list[Piece]]:
        return [pieces(line) for line in self.in_zone(part.lines)]

    def compared(self, run: DetailedRun) -> ComparedLog:
        """Return the end of a run's log without times, to compare it with another run's."""
        with_store = self._services.stored_logs is not None
        source = self._services.database.read(
            lambda session: log_source(session, run, with_store=with_store)
        )
        part = self._reader.read(
            source, 1, limit=COMPARED_LINES, at_end=True, wait_seconds=WAIT_SECONDS
        )
        lines = [shown(line) for line in part.lines] or _kept(run, part)
        return ComparedLog(
            text="\n".join(without_time(line)[:COMPARED_LENGTH] for line in lines),
            from_line=part.from_line,
            is_there=bool(lines) or part.status in (ReadStatus.LINES, ReadStatus.MISSING),
            is_kept=bool(lines) and not part.lines,
        )

    def search(self, known: Visitor, run_id: int) -> Response:
        """Return as JSON the numbers of lines from `from` on that contain `q`."""
        _, source = self._find(known, run_id)
        words = request.args.get("q", "").strip()[:MAX_WORDS_LENGTH]
        log_matches = (
            self._reader.search(source, words, _line("from") or 1)
            if words
            else LogMatches(status=ReadStatus.LINES, is_end=True)
        )
        return jsonify(
            answer=log_matches.status,
            lines=log_matches.lines,
            looked_to=log_matches.to_line,
            is_end=log_matches.is_end,
        )

    def download(self, known: Visitor, run_id: int) -> Response:
        """Send the raw log piece by piece."""
        run, source = self._find(known, run_id)
        answer = Response(self._pieces(run, source), content_type="text/plain; charset=utf-8")
        answer.headers["Content-Disposition"] = f'attachment; filename="run-{run.id}.log"'
        return answer

    def _times(self, run: DetailedRun, part: LogPart) -> list[str]:
        """Return the time of each line in the viewer's zone; empty if unknown."""
        return [self._local_times.clock(at_ms) if at_ms else "" for at_ms in _stamps(run, part)]

    def _pieces(self, run: DetailedRun, source: Source) -> Iterator[bytes]:
        line, size = 1, 0
        while size < self._limits.file_bytes:
            with self._reading_piece:
                part = self._reader.read(
                    source, line, limit=self._limits.piece_lines, wait_seconds=WAIT_SECONDS
                )
            if part.status is not ReadStatus.LINES:
                yield _end_of_broken(run, part.status, is_first=line == 1).encode()
                return
            if not part.lines:
                if line == 1:
                    yield (run.log_tail or "").encode(errors="replace")
                return
            piece = ("\n".join(part.lines) + "\n").encode(errors="replace")
            line, size = part.next_line, size + len(piece)
            yield piece
            if part.is_end:
                return

    def _find(self, known: Visitor, run_id: int) -> tuple[DetailedRun, Source]:
        """Return a run of the visitor's apps, and where its log is."""

        def read(session: Session) -> tuple[DetailedRun, Source]:
            run = recent.run(session, run_id, known.app_ids)
            with_store = self._services.stored_logs is not None
            return run, log_source(session, run, with_store=with_store)

        return self._services.database.read(read)


def _stamps(run: DetailedRun, part: LogPart) -> list[int]:
    """Return when each line was written, in epoch milliseconds; 0 = unknown."""
    ended, began = run.finished_at or 0, run.started_at or 0
    # Executors store no line times for so short a run, and it needs none.
    otherwise = ended if began and ended - began < SHORT_MS else 0
    return [at_ms or otherwise for at_ms in part.line_times]


def _line(name: str) -> int | None:
    """Return a line number of the query, clamped to the valid range; None if there is none."""
    text = request.args.get(name, "")
    if not text.isdecimal() or not text.isascii():
        return None
    return max(1, min(int(text[:12]), LAST_LINE))


def _for_script(line: list[Piece]) -> str | list[Piece]:
    """Return a line for JSON: a text, or its pieces if some have colours."""
    [(classes, text), *more] = line
    return line if classes or more else text


def _kept(run: DetailedRun, part: LogPart) -> list[str]:
    """Return the lines of the stored end of a log, if its executor cannot provide any."""
    if part.lines or part.status is ReadStatus.BUSY or part.from_line > 1:
        return []
    tail = whole_lines(run.log_tail or "")
    return shown_text(tail.rstrip("\n")).split("\n") if tail else []


def _end_of_broken(run: DetailedRun, answer: ReadStatus, *, is_first: bool) -> str:
    """Return how a download ends if the executor does not give the rest of the log."""
    if answer is ReadStatus.BUSY:
        return "[the rest is missing: too many logs were read at once; try again]\n"
    if not is_first:
        return f"[the rest is missing: its executor {_WHY[answer]}]\n"
    return _KEPT.format(_WHY[answer]) + (run.log_tail or "")
