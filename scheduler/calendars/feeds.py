"""Reads iCalendar feeds (`.ics`): which days are off, and which are moved working days.

PyPI's `recurring-ical-events` says when events are. What they mean is decided here, event by event:
one that cannot be read is noted, and harms no other.

In China and Taiwan, titles say that people work on a day off. The word for it comes first or last,
stands in brackets, or beside the name of a holiday; which day of several it is may follow. Many
other words end in the same character: 值班 is duty, 加班 overtime, 航班 a flight.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.reading import OFF, WORK, CalendarDays, NotTaken

#: Traditional characters of the words below, as simplified ones.
_SIMPLIFIED = str.maketrans(
    "補調節國慶開紀農曆勞動兒師憲長連週禮號後間這雙掃無沒",
    "补调节国庆开纪农历劳动儿师宪长连周礼号后间这双扫无没",
)
_BRACKETED = re.compile(r"\(([^()]*)\)")
_BETWEEN = re.compile(r"[\s(),.:;/|·•、。_~+-]+")
#: Which day of several it is: 第1天/共2天, 第 1 天, 1/2.
_COUNTED = re.compile(r"第\s*\d+\s*[天日](\s*/?\s*共\s*\d+\s*[天日])?|(?<!\d)\d+\s*/\s*\d+(?!\d)")
_NAMED = (
    "(元旦|开国纪念日|春节|农历新?年|新年|除夕|小年夜|清明|民族扫墓节|劳动节|端午|中秋|国庆"
    "|和平纪念日|儿童节|教师节|光复节|行宪纪念日|双十)[节日]?((长|连)?假期?)?(前|后|期间)?的?"
)
_HOLIDAY = f"({_NAMED}|五一|十一|二二八|228)"
_WHEN = r"([本这下]?(周|星期|礼拜)[一二三四五六日天]|\d+月\d+[日号]|今[天日])"
_WORK = "((正常|照常|调休|补行?|调整)?上班日?|(调休)?补班日?|调休|调班日?|(调休|补)?工作日)"
#: A word that says it by itself; 班, which does beside the name of a holiday; words that deny it.
_SAYS_WORK = re.compile(f"({_HOLIDAY}|{_WHEN})?{_WORK}|{_WORK}({_HOLIDAY}|{_WHEN})")
_HOLIDAY_AND_MARK = re.compile(f"{_NAMED}班|班{_NAMED}|{_HOLIDAY} 班|班 {_HOLIDAY}")
_DENIES = re.compile("休|休息日?|放假|休假|假[日期]?|[不非免]|[无不]需要?|不[用必]|没有|取消")
_OTHER_SHIFT = re.compile("[值加夜早晚中白轮换交接航停下跟领]班|训班")
_IN_ENGLISH = ("work", "workday", "working day")


def is_working_day(title: str) -> bool:
    """Whether an event with this title is a day off on which people work."""
    plain = unicodedata.normalize("NFKC", title).translate(_SIMPLIFIED).casefold()
    plain = _COUNTED.sub(" ", "".join(map(_round, plain)))
    bracketed = [" ".join(part.split()) for part in _BRACKETED.findall(plain)]
    outside = _words(_BRACKETED.sub(" ", plain))
    inside = [_words(part) for part in bracketed]
    words = [*outside, *(word for part in inside for word in part)]
    if any(_DENIES.fullmatch(word) or _OTHER_SHIFT.search(word) for word in words):
        return False
    if any(part == "班" or part in _IN_ENGLISH for part in bracketed):
        return True
    neighbours = [*words, *map(" ".join, pairwise(words))]
    ends = [word for part in (outside, *inside) for word in (*part[:1], *part[-1:])]
    return any(map(_HOLIDAY_AND_MARK.fullmatch, neighbours)) or any(map(_SAYS_WORK.fullmatch, ends))


def _words(text: str) -> Sequence[str]:
    return [word for word in _BETWEEN.split(text) if word]


def _round(character: str) -> str:
    """Return any kind of bracket as a round one."""
    return {"Ps": "(", "Pe": ")"}.get(unicodedata.category(character), character)


#: Which days are off if the calendar does not say so.
DEFAULT_WEEKEND = ("SAT", "SUN")
#: The most characters of a holiday's name.
NAME_LENGTH = 100
#: Years from now that are computed ahead: holidays that follow rules, and events that repeat.
YEARS_AHEAD = 5
#: The most events of a feed, the longest one, in days, and the most characters that say when it is.
MAX_EVENTS, MAX_EVENT_DAYS, MAX_EVENT_LENGTH = 5_000, 366, 20_000
#: The most characters that are read of a title or a description.
MAX_TEXT = 1_000
#: Characters beyond these cost a round each: they are dates, and reading one takes that long.
USUAL_EVENT_LENGTH = 3_000
#: What the rules of a feed may cost together, in rounds of a daily rule: it takes some seconds.
MAX_ROUNDS = 500_000
#: How many such rounds one of another rule costs, and an event that is found.
_ROUNDS = {"YEARLY": 20, "MONTHLY": 4, "WEEKLY": 2, "DAILY": 1}
_EVENT_ROUNDS = 50
_WITHIN_A_DAY = ("BYHOUR", "BYMINUTE", "BYSECOND")
#: The years of events that do not repeat.
_FIRST, _LAST = date(1970, 1, 1), date(2100, 1, 1)

_TEXTS = ("SUMMARY", "DESCRIPTION")
_RULES = ("RRULE", "RDATE", "EXDATE")
_APPLE, _MICROSOFT = "X-APPLE-SPECIAL-DAY", "X-MICROSOFT-CDO-ALLDAYEVENT"
#: A day of 24 hours that loses one to a clock change.
_SHORTEST_DAY = timedelta(hours=23)
#: What is read of an event, and where this module keeps its line.
_READ = {
    *("UID", "SEQUENCE", "STATUS", "RECURRENCE-ID", "DTSTART", "DTEND", "DURATION", *_RULES),
    *("CATEGORIES", _APPLE, _MICROSOFT, *_TEXTS),
}
_LINE, _ZONE = "X-LINE", "X-WR-TIMEZONE"
#: How descriptions and categories call a day on which people work.
_OBSERVANCES = {"observance", "observances"}


class _Untakeable(Exception):
    """Why an event cannot be taken."""


#: What icalendar, recurring-ical-events and dateutil raise, beside our own.
_ERRORS = (_Untakeable, ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


class _Block(NamedTuple):
    """The lines of an event, and the number of the first in its file."""

    line: int
    lines: Sequence[str]
    is_cancelled: bool
    zone: str
    is_whole: bool

    @property
    def length(self) -> int:
        """How many characters it has."""
        return sum(map(len, self.lines))

    @property
    def title(self) -> str:
        """Its title, before it is read."""
        said = next((line for line in self.lines if line[:7].upper() == "SUMMARY"), "")
        return said.partition(":")[2][:NAME_LENGTH]


def read_ical(text: str, source: str, today: date, *, max_rounds: int = MAX_ROUNDS) -> CalendarDays:
    """Return the days of the events of a feed: days off, or working days if it marks them so.

    They end with the last year for which it lists an event; if it has rules only, with the last
    year that is computed.

    Raises:
        Problem: it is not an iCalendar file, none of its events counts, or the library is missing.

    """
    try:
        import recurring_ical_events  # noqa: F401, PLC0415 - only `warren[server]` has it
    except ImportError as error:
        raise Problem(Code.ICALENDAR_MISSING, "from") from error
    try:
        blocks = list(_blocks(text))
    except _Untakeable as error:
        raise Problem(Code.ICALENDAR, "from", got=source[:100], why=str(error)) from error
    feed = _Feed(today, _Cost(max_rounds))
    feed.read(blocks)
    if not feed.days:
        why = "no all-day event is in it"
        why = f"{why}; {feed.not_taken}" if feed.not_taken else why
        raise Problem(Code.ICALENDAR, "from", got=source[:100], why=why)
    last = max(feed.listed or {day.year for day in feed.days})
    return CalendarDays(
        weekend=DEFAULT_WEEKEND,
        days=feed.days,
        until=date(last, 12, 31),
        source=source,
        not_taken=feed.not_taken,
    )


def _content_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a feed with their numbers; those that go on in the next are put together.

    Only the ends of lines that iCalendar knows end them.
    """
    begun, parts = 1, [""]
    for number, line in enumerate(re.split(r"\r?\n|\r", text.removeprefix("\ufeff")), 1):
        if line[:1] in (" ", "\t"):
            parts.append(line[1:])
            continue
        yield begun, "".join(parts)
        begun, parts = number, [line]
    yield begun, "".join(parts)


def _blocks(text: str) -> Iterator[_Block]:  # noqa: C901 - a branch for each kind of line
    """Yield the events; those of a calendar that cancels are cancelled."""
    method, zone, depth, count = "", "", 0, 0
    begun, event = 0, list[str]()
    is_calendar = False
    for number, line in _content_lines(text):
        name, _, value = line.partition(":")
        name, value = name.partition(";")[0].strip().upper(), value.strip()
        begins, ends = name == "BEGIN", name == "END"
        if begins and value.upper() == "VCALENDAR":
            is_calendar, method, zone = True, "", ""
        elif not begun and name == "METHOD":
            method = value.upper()
        elif not begun and name == "X-WR-TIMEZONE":
            zone = value if _is_zone(value) else ""
        elif (begins or ends) and value.upper() in ("VEVENT", "VCALENDAR"):
            if begun:
                yield _Block(begun, event, method == "CANCEL", zone, ends and not depth)
            begun, event, depth = number if begins else 0, [], 0
            count += begins
            if count > MAX_EVENTS:
                raise _Untakeable(f"it has more than {MAX_EVENTS} events")
        elif begun and (begins or ends):
            depth += 1 if begins else -1
        elif begun and not depth and name in _READ:
            event.append(line[:MAX_TEXT] if name in _TEXTS else line)
    if begun:
        yield _Block(begun, event, method == "CANCEL", zone, is_whole=False)
    if not is_calendar:
        raise _Untakeable("it has no BEGIN:VCALENDAR")


def _is_zone(name: str) -> bool:
    try:
        return bool(ZoneInfo(name))
    except (ValueError, LookupError, OSError):
        return False


class _Cost:
    """What is left of what the rules of a feed may cost; no event may take more than half of it."""

    def __init__(self, rounds: int) -> None:
        self._left, self._half, self._least = rounds, rounds // 2, 0

    def begin(self) -> None:
        self._least = max(0, self._left - self._half)

    def spend(self, rounds: int) -> None:
        """Raise if it is used up."""
        self._left -= rounds
        if self._left < self._least:
            raise _Untakeable("it repeats too often, with the events before it")


class _Interval(int):
    """The interval of a rule. dateutil adds it in each round, also in one that gives no date."""

    cost: _Cost
    rounds: int

    def __radd__(self, other: int) -> int:
        self.cost.spend(self.rounds)
        return int(self) + other

    def __mul__(self, other: int) -> int:
        self.cost.spend(self.rounds)
        return int(self) * other


def _costly_events(cost: _Cost) -> Any:
    """Return a component that collects events and charges their rules to `cost`."""
    from recurring_ical_events import Series  # noqa: PLC0415 - only `warren[server]` has it
    from recurring_ical_events.selection.name import ComponentsWithName  # noqa: PLC0415 - same

    class Rules(Series.RecurrenceRules):  # type: ignore[misc] # the library has no types
        def rrulestr(self, text: str) -> Any:
            rule = super().rrulestr(text)
            interval = _Interval(rule._interval)  # noqa: SLF001 - dateutil has no limit of its own
            interval.cost = cost
            interval.rounds = next(_ROUNDS[name] for name in _ROUNDS if f"FREQ={name}" in text)
            rule._interval = interval  # noqa: SLF001 - as above
            return rule

    class CostlySeries(Series):  # type: ignore[misc] # as above
        RecurrenceRules = Rules

    return ComponentsWithName("VEVENT", series=CostlySeries)


class _Feed:
    """The days of a feed, the years that it lists, and what is not taken of it."""

    def __init__(self, today: date, cost: _Cost) -> None:
        self.days: dict[date, str] = {}
        self.listed: set[int] = set()
        self._window = date(today.year - 1, 1, 1), date(today.year + YEARS_AHEAD + 1, 1, 1)
        self._cost = cost
        self._noted: dict[int, tuple[str, str]] = {}
        self._marks_holidays = False

    @property
    def not_taken(self) -> NotTaken | None:
        """What is not taken; None = all is."""
        if not self._noted:
            return None
        counts = Counter(kind for kind, _ in self._noted.values())
        line = min(self._noted)
        return NotTaken(**counts, line=line, first=self._noted[line][1])

    def read(self, blocks: Iterable[_Block]) -> None:
        """Take the days of all events."""
        by_uid = defaultdict[str, list[Any]](list)
        for block in blocks:
            try:
                self._cost.begin()
                event = _event(block, self._cost)
            except _ERRORS as error:
                self._note("unreadable", block.line, block.title, error)
                continue
            by_uid[str(event.get("UID") or f"line {block.line}")].append(event)
            self._marks_holidays |= _mark(event) == "WORK-HOLIDAY"
        all_series = [series for events in by_uid.values() for series in _series(events)]
        # What repeats comes last, as only that can cost too much.
        for series in sorted(all_series, key=_repeats):
            self._cost.begin()
            self._take(series)

    def _take(self, series: Sequence[Any]) -> None:
        """Take the days of an event and of its repetitions."""
        # In the zone of the feed, a time of UTC may be midnight.
        if not series[0].get(_ZONE) and all(self._meaning(event) == "timed" for event in series):
            for event in series:
                self._note("timed", event[_LINE], _title(event))
            return
        try:
            found = list(self._occurrences(series))
        except _ERRORS as error:
            self._note("unreadable", series[0][_LINE], _title(series[0]), error)
            return
        is_listed = _listing(series)
        for event in found:
            meaning = self._meaning(event)
            if meaning not in (WORK, OFF):
                self._note(meaning, event[_LINE], _title(event))
                continue
            said = WORK if meaning == WORK else f"{OFF} {_title(event)}".rstrip()
            for day in _days(event):
                if self.days.get(day) != WORK:
                    self.days[day] = said
            if is_listed(event):
                self.listed.add(_date(event["DTSTART"].dt).year)

    def _occurrences(self, series: Sequence[Any]) -> Iterator[Any]:
        """Yield the events of a series, each at its time, without those that are cancelled."""
        from icalendar import Calendar  # noqa: PLC0415 - only `warren[server]` has it
        from recurring_ical_events import of  # noqa: PLC0415 - same

        calendar = Calendar()
        if zone := series[0].get(_ZONE):
            calendar[_ZONE] = zone
        for event in series:
            calendar.add_component(event)
        window = self._window if _repeats(series) else (_FIRST, _LAST)
        for event in of(calendar, components=[_costly_events(self._cost)]).between(*window):
            if not _is_cancelled(event):
                self._cost.spend(_EVENT_ROUNDS + _length(event))
                yield event

    def _meaning(self, event: Any) -> str:
        """Return `work`, `off`, or why the event is neither."""
        if _mark(event) == "ALTERNATE-WORKDAY" or is_working_day(_title(event)):
            return WORK
        if not _is_all_day(event):
            return "timed"
        # Apple marks the holidays of a country: what it does not mark is none.
        is_unmarked = self._marks_holidays and not _mark(event)
        return "observances" if is_unmarked or _is_observance(event) else OFF

    def _note(self, kind: str, line: int, title: str, error: Exception | None = None) -> None:
        why = f": {' '.join(str(error).split())}" if error else ""
        self._noted.setdefault(line, (kind, f"{title or 'without a title'}{why}"[:200]))


def _event(block: _Block, cost: _Cost) -> Any:
    """Return an event as icalendar has it.

    Raises:
        _Untakeable: it cannot be read, or makes no sense.

    """
    from icalendar import Event  # noqa: PLC0415 - only `warren[server]` has it

    if not block.is_whole:
        raise _Untakeable("it has no END:VEVENT")
    if block.length > MAX_EVENT_LENGTH:
        raise _Untakeable(f"it is longer than {MAX_EVENT_LENGTH} characters")
    cost.spend(max(0, block.length - USUAL_EVENT_LENGTH))
    event = Event.from_ical("\r\n".join(("BEGIN:VEVENT", *block.lines, "END:VEVENT", "")))
    for name, why in event.errors:
        raise _Untakeable(f"{name}: {why}" if name else why)
    event[_LINE], event[_ZONE] = block.line, block.zone
    if block.is_cancelled:
        event["STATUS"] = "CANCELLED"
    if "RECURRENCE-ID" in event:
        for name in _RULES:
            event.pop(name, None)
        if _is_cancelled(event):
            event.setdefault("DTSTART", event["RECURRENCE-ID"])
    if _is_cancelled(event):
        return event
    _check(event)
    return event


def _check(event: Any) -> None:
    if "DTSTART" not in event:
        raise _Untakeable("it has no DTSTART")
    if _length(event) < 0:
        raise _Untakeable("its end is before its start")
    if _length(event) > MAX_EVENT_DAYS:
        raise _Untakeable(f"it is longer than {MAX_EVENT_DAYS} days")
    for rule in _all(event, "RRULE"):
        if rule.get("FREQ", [""])[0] not in _ROUNDS or any(name in rule for name in _WITHIN_A_DAY):
            raise _Untakeable("it repeats more often than daily")
        if rule.get("INTERVAL", [1])[0] < 1:
            raise _Untakeable("the interval of its rule is 0")


def _series(events: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the events of one UID: each with its changed repetitions.

    The newest SEQUENCE counts. Several without one are events of their own: some feeds give all
    events the same UID.
    """
    changed = [event for event in events if "RECURRENCE-ID" in event]
    changed.sort(key=_is_cancelled, reverse=True)  # of the same SEQUENCE, the first one counts
    whole = [event for event in events if "RECURRENCE-ID" not in event]
    if not whole:
        yield changed
        return
    newest = max(int(event.get("SEQUENCE", 0)) for event in whole)
    whole = [event for event in whole if int(event.get("SEQUENCE", 0)) == newest]
    gone = [_start(event) for event in whole if _is_cancelled(event)]
    alive = [event for event in whole if None not in gone and _start(event) not in gone]
    for number, event in enumerate(alive):
        yield [event] if number else [event, *changed]


def _listing(series: Sequence[Any]) -> Callable[[Any], bool]:
    """Return whether a feed lists an event by itself, and does not leave it to a rule.

    A rule that ends and is not yearly is a way to list what begins with it.
    """
    rules = [rule for event in series for rule in _all(event, "RRULE")]
    if not rules:
        return lambda _: True
    lines = {event[_LINE] for event in series if _is_single_change(event)}
    starts = {
        each.dt[0] if isinstance(each.dt, tuple) else each.dt
        for event in series
        for dates in _all(event, "RDATE")
        for each in dates.dts
    }
    if all("YEARLY" not in rule["FREQ"] and {"UNTIL", "COUNT"} & {*rule} for rule in rules):
        starts |= {_start(event) for event in series}
    return lambda event: event[_LINE] in lines or _start(event) in starts


def _repeats(series: Sequence[Any]) -> bool:
    return any("RRULE" in event for event in series)


def _is_single_change(event: Any) -> bool:
    again = event.get("RECURRENCE-ID")
    return again is not None and "RANGE" not in again.params


def _all(event: Any, name: str) -> list[Any]:
    """Return the values of a property that may come several times."""
    value = event.get(name)
    return [] if value is None else value if isinstance(value, list) else [value]


def _start(event: Any) -> date | datetime | None:
    return event["DTSTART"].dt if "DTSTART" in event else None


def _end(event: Any) -> date | datetime:
    """Return the end of an event, which is not part of it."""
    start: date | datetime = event["DTSTART"].dt
    if "DTEND" in event:
        end: date | datetime = event["DTEND"].dt
        return end
    if "DURATION" in event:
        length: timedelta = event["DURATION"].dt
        return _wall(start) + length
    return start if isinstance(start, datetime) else start + timedelta(days=1)


def _wall(at: date | datetime) -> datetime:
    """Return a time as clocks show it where the event is."""
    if isinstance(at, datetime):
        return at.replace(tzinfo=None)
    return datetime.combine(at, time())


def _date(at: date | datetime) -> date:
    return at.date() if isinstance(at, datetime) else at


def _length(event: Any) -> int:
    """Return the days from the start of an event to its end."""
    return (_date(_end(event)) - _date(event["DTSTART"].dt)).days


def _is_all_day(event: Any) -> bool:
    start, end = event["DTSTART"].dt, _end(event)
    if not isinstance(start, datetime) or _is_microsofts(event):
        return True
    return start.time() == time() == _wall(end).time() and _length(event) > 0


def _is_microsofts(event: Any) -> bool:
    return str(event.get(_MICROSOFT, "")).upper() == "TRUE"


def _days(event: Any) -> Iterator[date]:
    """Yield the days that an event touches; one without length is a day."""
    start, end = _wall(event["DTSTART"].dt), _wall(_end(event))
    if _is_microsofts(event) and end - start >= _SHORTEST_DAY:
        # In UTC, midnight elsewhere is up to twelve hours away.
        start, end = (datetime.combine(at + timedelta(hours=12), time()) for at in (start, end))
    first = start.date()
    is_past = end.time() == time() and end.date() > first
    last = end.date() - timedelta(days=1) if is_past else end.date()
    for number in range((last - first).days + 1):
        yield first + timedelta(days=number)


def _is_cancelled(event: Any) -> bool:
    return str(event.get("STATUS", "")).upper() == "CANCELLED"


def _mark(event: Any) -> str:
    """Return Apple's mark of a day: WORK-HOLIDAY, ALTERNATE-WORKDAY, SPECIAL-DAY or another."""
    return str(event.get(_APPLE, "")).upper()


def _is_observance(event: Any) -> bool:
    """Whether a feed says that people work on the day.

    Google says so in the description, in the words of each language: observances are hidden in the
    settings of Google, > Holidays.
    """
    if _mark(event) == "SPECIAL-DAY":
        return True
    said = str(event.get("DESCRIPTION", "")).casefold()
    categories = {
        str(name).casefold()
        for each in _all(event, "CATEGORIES")
        for name in getattr(each, "cats", [each])
    }
    return (
        said.partition("\n")[0].strip() in _OBSERVANCES
        or re.search(r"google.*>", said) is not None
        or not categories.isdisjoint(_OBSERVANCES)
        or "not a public holiday" in f"{_title(event)}\n{said}".casefold()
    )


def _title(event: Any) -> str:
    said = " ".join(str(event.get("SUMMARY", "")).split())
    return "".join(each for each in said if each.isprintable())[:NAME_LENGTH]
