"""Previews a schedule while it is being typed: in words, with its next times."""

from dataclasses import dataclass
from itertools import pairwise
from zoneinfo import ZoneInfo

from flask_babel import gettext

from warren.admin_web.language import job_labels
from warren.admin_web.language.catalogues import language
from warren.admin_web.language.problem_text import problem_text
from warren.scheduler.cron.wall_clock import load_zone
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.registry import has_schedule, hint
from warren.scheduler.schedules.upcoming import first_fires
from warren.sql.instants import moment

#: Times shown at most.
FIRES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A schedule in words and its first times, or what is wrong with it.

    `hint` says what in it is easily misread.
    """

    words: str = ""
    hint: str = ""
    fires: tuple[int, ...] = ()
    zone: str = ""
    wrong: str = ""

    @property
    def shifts(self) -> dict[int, str]:
        """The first time after each clock change of the job's zone, with its new UTC offset."""
        offsets = {at: moment(at, ZoneInfo(self.zone)).isoformat()[-6:] for at in self.fires}
        return {
            after: offsets[after]
            for before, after in pairwise(self.fires)
            if offsets[before] != offsets[after]
        }


def preview(kind: str, value: str, zone: str, *, now_ms: int) -> Preview | None:
    """Return the preview of a schedule; None if nothing is typed."""
    if not value and has_schedule(kind):
        return None
    try:
        load_zone(zone)
        fires = first_fires(kind, value[:1_000], now_ms=now_ms, count=FIRES, timezone=zone)
    except Problem as problem:
        return Preview(wrong=problem_text(problem))
    if not fires and has_schedule(kind):
        return Preview(wrong=gettext("It will not run again."))
    words = job_labels.schedule_words(kind, value)
    return Preview(words=words, hint=hint(kind, value, language()), fires=tuple(fires), zone=zone)
