"""Times on pages: in the viewer's zone, with the job's or the cluster's zone beside it."""

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from babel.dates import format_timedelta, get_day_names
from flask import Flask, request
from flask_babel import get_locale, gettext

from warren.admin_web.services import ConsoleServices
from warren.admin_web.visitors import known_visitor
from warren.sql.instants import moment

#: Set by a script to the browser's zone; the user's own setting takes precedence.
ZONE_COOKIE = "warren_zone"
_FORMAT = "%Y-%m-%d %H:%M:%S"


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

    def relative(self, instant_ms: int) -> str:
        """Return the distance of a time from now, in words of the viewer's language."""
        distance = timedelta(milliseconds=instant_ms - self._now_ms())
        if abs(distance) < timedelta(seconds=2):
            return str(gettext("now"))
        # A unit is used from two of it on: 80 s are not "1m", and 80 minutes not "1h".
        return format_timedelta(
            distance, add_direction=True, threshold=2, format="narrow", locale=get_locale()
        )

    def duration(self, duration_ms: int) -> str:
        """Return a duration in three significant digits, or to the second above a minute."""
        if duration_ms < 1:
            return "<1 ms"
        seconds = duration_ms / 1000
        if seconds < 60:  # noqa: PLR2004 - seconds of a minute
            return f"{seconds:.3g} s"
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


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
