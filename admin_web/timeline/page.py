"""The timeline page: its window, its apps, and links to other pages."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from zoneinfo import ZoneInfo

from flask import render_template, request, url_for
from flask_babel import lazy_gettext
from wtforms import SelectField

from warren.admin_web.forms.console_form import ALL, ConsoleForm, select_choices
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.services import ConsoleServices
from warren.admin_web.timeline.bars import WIDTH, Bar, Window
from warren.admin_web.timeline.timeline_rows import Grouping, Row, TimelineReader
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.sql.instants import HOUR_MS, moment
from warren.sql.registry.apps import ids_by_name

#: Milliseconds between grid lines, by the hours that the page shows before and after its middle.
ZOOMS = {"24": 4 * HOUR_MS, "6": HOUR_MS, "1": HOUR_MS // 4}
DEFAULT_ZOOM = "24"
#: The linked list of a bar's runs starts this much before the first is due, and ends later.
_AROUND_MS = 60_000
#: Limits for the middle of the page: 2000 to 2200.
_FIRST_MS, _LAST_MS = 946_684_800_000, 7_258_118_400_000


class TimelineForm(ConsoleForm):
    """Asks for apps, kind of rows and window."""

    app = SelectField(lazy_gettext("App"), default="")
    rows = SelectField(
        lazy_gettext("Group by"),
        choices=select_choices(
            [(Grouping.JOB, lazy_gettext("job")), (Grouping.APP, lazy_gettext("app"))]
        ),
        default=Grouping.JOB.value,
    )
    zoom = SelectField(
        lazy_gettext("Window"),
        choices=select_choices(
            [
                ("24", lazy_gettext("± 24 h")),
                ("6", lazy_gettext("± 6 h")),
                ("1", lazy_gettext("± 1 h")),
            ]
        ),
        default=DEFAULT_ZOOM,
    )


@dataclass(frozen=True, slots=True)
class Line:
    """A grid line: its position and its label."""

    x: int
    text: str


class TimelinePages:
    """Past and future runs of the visitor's jobs."""

    name = "timeline"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._local_times = LocalTimes(services.cluster_zone, services.now_ms)

    @route("/timeline", Right.VIEW)
    def show(self) -> str | tuple[str, int]:
        """Show runs as bars and due times as marks."""
        known, form = visitor(), TimelineForm(request.args)
        apps = self._services.database.read(lambda s: ids_by_name(s, known.app_ids))
        form.app.choices = select_choices([ALL, *((app, app) for app in apps)])
        if not form.validate():
            return render_template("pages/timeline.html", form=form, found=None), 422
        mine = {apps[form.app.data]} if form.app.data else known.app_ids
        window, grouping = self._window(form), Grouping(form.rows.data)
        timeline = self._services.database.read(
            lambda s: TimelineReader(s, window, self._services.timezone).read(mine, grouping)
        )
        return render_template(
            "pages/timeline.html",
            form=form,
            found=timeline,
            width=WIDTH,
            lines=list(self._lines(window, ZOOMS[form.zoom.data])),
            middle_ms=_middle_ms(),
            half_ms=int(form.zoom.data) * HOUR_MS,
            runs_url=self._runs_url,
        )

    def _window(self, form: TimelineForm) -> Window:
        now_ms = self._services.now_ms()
        middle, half = _middle_ms() or now_ms, int(form.zoom.data) * HOUR_MS
        return Window(middle - half, middle + half, now_ms)

    def _lines(self, window: Window, step_ms: int) -> Iterator[Line]:
        """Yield the grid lines of a window, at full hours in the viewer's zone."""
        zone = ZoneInfo(self._local_times.zone())
        shift = moment(window.from_ms, zone).utcoffset() or timedelta()
        shift_ms = int(shift.total_seconds() * 1000)
        first = -(-(window.from_ms + shift_ms) // step_ms) * step_ms - shift_ms
        for instant in range(first, window.until_ms, step_ms):
            local = moment(instant, zone)
            yield Line(
                window.place(instant),
                f"{local:%H:%M}" if local.hour or local.minute else f"{local:%m-%d}",
            )

    def _runs_url(self, row: Row, bar: Bar) -> str:
        """Return the URL of a bar's run, or of the list of its runs."""
        if bar.count == 1:
            return url_for("runs.show", run_id=bar.run_id)
        return url_for(
            "runs.index",
            app=row.app or None,
            job=(row.name or f"#{row.job_id}") if row.job_id else None,
            since=self._local_times.input(bar.due_ms - _AROUND_MS),
            until=self._local_times.input(bar.until_ms + _AROUND_MS),
        )


def _middle_ms() -> int | None:
    """Return the middle of the window from the URL; None = now."""
    at = request.args.get("at", type=int)
    return at if at is not None and _FIRST_MS <= at <= _LAST_MS else None
