"""Times on pages: in the viewer's zone, with the job's or the cluster's zone beside it."""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

from babel.dates import get_day_names
from flask import Flask, g, request
from flask_babel import get_locale, gettext, lazy_gettext

from warren.admin_web.services import ConsoleServices
from warren.admin_web.visitors import known_visitor
from warren.sql.instants import DAY_MS, HOUR_MS, MINUTE_MS, moment

#: Set by a script to the browser's zone; the user's own setting takes precedence.
ZONE_COOKIE = "warren_zone"
_FORMAT = "%Y-%m-%d %H:%M:%S"
#: A weekday names a day that is nearer than this.
DAYS_OF_WEEK = 7


class LocalTimes:
    """Formats epoch milliseconds.

    Args:
        cluster_zone: for viewers without a zone, for days, and for jobs that name none.
        now_ms: the database's clock.

    """

    def __init__(self, cluster_zone: Callable[[], str], now_ms: Callable[[], int]) -> None:
        self._cluster_zone = cluster_zone
        self._now_ms = now_ms

    @property
    def cluster_zone(self) -> str:
        """The zone of day counts and of jobs that name none."""
        return self._cluster_zone()

    def zone(self) -> str:
        """Return the viewer's zone: from their settings, the browser, or the cluster."""
        if "viewer_zone" not in g:  # a page asks for each time that it shows
            g.viewer_zone = self._viewer_zone()
        return str(g.viewer_zone)

    def _viewer_zone(self) -> str:
        known = known_visitor()
        for wanted in (known.timezone if known else "", request.cookies.get(ZONE_COOKIE, "")):
            if wanted in zones():
                return wanted
        return self._cluster_zone()

    def format(self, instant_ms: int) -> str:
        """Return a time in the viewer's zone, to the second."""
        return _shown(instant_ms, self.zone())

    def format_with_zone(self, instant_ms: int, zone: str | None = None) -> str:
        """Return a time in the viewer's and in the job's zone, for tooltips."""
        own, other = self.zone(), zone or self._cluster_zone()
        texts = [f"{_shown(instant_ms, own)} {own}"]
        if other != own:
            texts.append(f"{_shown(instant_ms, other)} {other}")
        return " · ".join(texts)

    def input(self, instant_ms: int) -> str:
        """Return a time in the viewer's zone, as the value of a time field."""
        return f"{moment(instant_ms, ZoneInfo(self.zone())):%Y-%m-%dT%H:%M}"

    def iso(self, instant_ms: int) -> str:
        """Return a time as ISO 8601 in UTC, with milliseconds."""
        return moment(instant_ms).isoformat(timespec="milliseconds")

    def clock(self, instant_ms: int) -> str:
        """Return the time of day in the viewer's zone, to the second."""
        return f"{moment(instant_ms, ZoneInfo(self.zone())):%H:%M:%S}"

    def short(self, instant_ms: int) -> str:
        """Return a time of day in the viewer's zone, with the weekday if near, or else the date."""
        zone = ZoneInfo(self.zone())
        at, now = moment(instant_ms, zone), moment(self._now_ms(), zone)
        days = abs((at.date() - now.date()).days)
        if not days:
            return f"{at:%H:%M}"
        return (
            f"{weekday_names()[at.weekday()]} {at:%H:%M}"
            if days < DAYS_OF_WEEK
            else f"{at:%Y-%m-%d}"
        )

    def relative(self, instant_ms: int) -> str:
        """Return the distance of a time from now, such as `67 min ago`."""
        distance = instant_ms - self._now_ms()
        if abs(distance) < _NOW_MS:
            return str(gettext("now"))
        span = age(abs(distance))
        words = gettext("in %(span)s") if distance > 0 else gettext("%(span)s ago")
        return str(words % {"span": span})

    def duration(self, duration_ms: int) -> str:
        """Return a duration, such as `7 min 4 s`."""
        return duration(duration_ms)


_NOW_MS = 2_000
#: The units of durations and ages, the largest first.
_UNITS = (
    (DAY_MS, lazy_gettext("%(n)s days")),
    (HOUR_MS, lazy_gettext("%(n)s h")),
    (MINUTE_MS, lazy_gettext("%(n)s min")),
    (1_000, lazy_gettext("%(n)s s")),
    (1, lazy_gettext("%(n)s ms")),
)


def age(span_ms: int) -> str:
    """Return a span in the largest unit of which there are two: 119 s, 67 min, 47 h, 2 days."""
    for unit_ms, words in _UNITS:
        if span_ms >= 2 * unit_ms:
            return str(words) % {"n": span_ms // unit_ms}
    return str(_UNITS[-1][1]) % {"n": span_ms}


def duration(span_ms: int) -> str:
    """Return a span in two units, or in three significant digits if it is below a minute.

    `240 ms`, `3.12 s`, `7 min 4 s`, `1 h 12 min`, `2 days 3 h`.
    """
    if span_ms < 1:
        return "<1 ms"
    if span_ms < MINUTE_MS:
        unit_ms, words = next(unit for unit in _UNITS if span_ms >= unit[0])
        return str(words) % {"n": f"{span_ms / unit_ms:.3g}"}
    seconds_ms = round(span_ms / 1_000) * 1_000
    for (unit_ms, words), (part_ms, part_words) in pairwise(_UNITS):
        # Days from two on, as there is no word for one.
        if seconds_ms >= (2 * unit_ms if unit_ms == DAY_MS else unit_ms):
            number, rest_ms = divmod(seconds_ms, unit_ms)
            parts = [(words, number), (part_words, rest_ms // part_ms)]
            return " ".join(str(word) % {"n": part} for word, part in parts if part)
    raise AssertionError


def install(app: Flask, services: ConsoleServices) -> None:
    """Provide the viewer's local times to an app's templates."""
    local_times = LocalTimes(services.cluster_zone, services.now_ms)
    app.jinja_env.globals.update(local_times=local_times)


def weekday_names() -> list[str]:
    """Return the short weekday names in the viewer's language, from Monday on."""
    names = get_day_names("abbreviated", locale=get_locale())
    return [str(names[day]) for day in range(7)]


@cache
def zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _shown(instant_ms: int, zone: str) -> str:
    return moment(instant_ms, ZoneInfo(zone)).strftime(_FORMAT)
