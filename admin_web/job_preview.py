"""What a schedule that is being typed means: in words, and its next times."""

from dataclasses import dataclass

from flask_babel import gettext

from admin_web import job_words
from admin_web.said import said
from scheduler.upcoming import first_fires

#: How many times are shown.
FIRES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A schedule in words and its first times; or what is wrong with it."""

    words: str = ""
    fires: tuple[int, ...] = ()
    zone: str = ""
    wrong: str = ""


def preview(kind: str, conf: str, zone: str, *, now_ms: int) -> Preview | None:
    """Return what a schedule means; None while nothing is typed."""
    if not conf and kind != "NONE":
        return None
    try:
        fires = first_fires(kind, conf[:1_000], now_ms=now_ms, count=FIRES, timezone=zone)
    except ValueError as error:
        return Preview(wrong=said(str(error)))
    if not fires and kind != "NONE":
        return Preview(wrong=gettext("It never fires again."))
    words = job_words.schedule_words(kind, conf)
    return Preview(words=words, fires=tuple(fires), zone=zone)
