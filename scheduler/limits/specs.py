"""Limits as users describe them, and whether a job may take what it names."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.broker import durations
from warren.scheduler.limits.uses import LIMIT_NAME, MAX_WEIGHT, uses_of
from warren.scheduler.problems import Code, FieldName, Problem
from warren.sql.limits import limits
from warren.sql.models import Limit

#: The most of a rate, and its longest period in seconds.
MAX_RATE = 1_000_000
MAX_PER = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSpec:
    """The desired state of a limit; None = it does not limit that.

    Attributes:
        at_once: how much all runs may hold together.
        rate: how much runs may take in each `per`.
        per: in seconds.

    """

    name: str
    at_once: int | None = None
    rate: int | None = None
    per: int | None = None

    @property
    def most(self) -> int:
        """The most that one run can ever take."""
        return min(value for value in (self.at_once, self.rate, MAX_RATE) if value is not None)

    @property
    def words(self) -> str:
        """What it says, as on a page."""
        at_once = [] if self.at_once is None else [f"{self.at_once} at once"]
        rate = [] if self.rate is None else [f"{self.rate} per {durations.shown(self.per or 0)}"]
        return ", ".join(at_once + rate)

    def columns(self) -> dict[str, int | None]:
        """Return what is stored of it."""
        per_ms = None if self.per is None else self.per * 1_000
        return {"at_once": self.at_once, "rate": self.rate, "per_ms": per_ms}


def spec_of(limit: Limit) -> LimitSpec:
    """Return a stored limit as a user would describe it."""
    per = None if limit.per_ms is None else limit.per_ms // 1_000
    return LimitSpec(name=limit.name or "", at_once=limit.at_once, rate=limit.rate, per=per)


def limits_of(session: Session, jobs: Iterable[Sequence[str]]) -> list[LimitSpec]:
    """Return the limits that jobs name, by name; each job is given by its field."""
    named = {use.name for texts in jobs for use in uses_of(texts)}
    return [spec_of(row) for row in limits.all_named(session) if row.name in named] if named else []


def problems(spec: LimitSpec) -> Iterator[Problem]:
    """Yield everything that is wrong with a limit."""
    if not re.fullmatch(LIMIT_NAME, spec.name):
        yield Problem(Code.LIMIT_NAME, "name", pattern=LIMIT_NAME, got=spec.name[:100])
    if (spec.rate is None) != (spec.per is None):
        at = "rate" if spec.rate is None else "per"
        yield Problem(Code.LIMIT_RATE, at, name=spec.name[:100])
    elif spec.at_once is None and spec.rate is None:
        yield Problem(Code.LIMIT_EMPTY, "name", name=spec.name[:100])
    for at, value, most in (
        ("at_once", spec.at_once, MAX_WEIGHT),
        ("rate", spec.rate, MAX_RATE),
        ("per", spec.per, MAX_PER),
    ):
        if value is not None and not 1 <= value <= most:
            facts = {"what": FieldName(at), "least": 1, "most": most, "got": value}
            yield Problem(Code.INTEGER, at, **facts)


class KnownLimits:
    """The limits that jobs may name: those that are stored, and `also` those of the same file."""

    def __init__(self, known: Mapping[str, LimitSpec]) -> None:
        self._known = known

    @classmethod
    def read(cls, session: Session, also: Iterable[LimitSpec] = ()) -> "KnownLimits":
        """Return all limits."""
        stored = map(spec_of, limits.all_named(session))
        return cls({spec.name: spec for spec in (*stored, *also)})

    def problems_of(self, named: Iterable[str]) -> Iterator[Problem]:
        """Yield why runs of a job could never take the limits that it names."""
        for use in uses_of(named):
            limit = self._known.get(use.name)
            if limit is None:
                yield self._unknown(use.name)
            elif use.weight > limit.most:
                facts = {"name": use.name, "n": use.weight, "most": limit.most}
                yield Problem(Code.LIMIT_TOO_SMALL, "limits", **facts)

    def _unknown(self, name: str) -> Problem:
        if near := difflib.get_close_matches(name, sorted(self._known), 1):
            return Problem(Code.LIMIT_UNKNOWN_NEAR, "limits", got=name, near=near[0])
        return Problem(Code.LIMIT_UNKNOWN, "limits", got=name)
