"""Calendar times, by a Quartz cron expression in the job's time zone."""

from dataclasses import dataclass
from typing import Self

from warren.scheduler.cron.expression import Cron
from warren.scheduler.cron.words import cron_words, weekday_hint
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.schedule import Schedule, Translate, ValueForm


@dataclass(frozen=True, slots=True)
class CronSchedule(Schedule):
    """The instants that an expression matches."""

    kind = "CRON"
    keyword = "cron"
    value_form = ValueForm.EXPRESSION
    uses_timezone = True
    title = "cron expression"
    advice = "At calendar times: every night at two, on the last Friday."

    expression: str
    cron: Cron

    @classmethod
    def read(cls, value: str, timezone: str) -> Self:
        """Compile an expression."""
        return cls(value, Cron.parse(value, timezone))

    @classmethod
    def in_words(cls, value: str, _translate: Translate, language: str) -> str:
        """Return an expression in words, or unchanged if it cannot be parsed."""
        try:
            return cron_words(value, language)
        except Problem:
            return value

    @classmethod
    def hint(cls, value: str, language: str) -> str:
        """Return which weekdays the numbers of an expression are."""
        try:
            return weekday_hint(value, language)
        except Problem:
            return ""

    def next_after(self, after_ms: int, _anchor_ms: int) -> int | None:
        """Return the first match after this instant."""
        return self.cron.next_after(after_ms)

    def last_until(self, after_ms: int, until_ms: int, _anchor_ms: int) -> int | None:
        """Return the last match of this span."""
        return self.cron.last_until(after_ms, until_ms)

    def count(self, after_ms: int, until_ms: int, _anchor_ms: int) -> int:
        """Count the matches in this span."""
        return self.cron.count(after_ms, until_ms)

    def check_new(self, now_ms: int) -> None:
        """Refuse an expression that never matches again."""
        if self.cron.next_after(now_ms) is None:
            raise Problem(Code.CRON_NEVER_FIRES, cron=self.expression)
