"""Limits as users describe them, and checks of the limits that jobs name."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy.orm import Session

from warren.broker import durations
from warren.resources.spelling import nearest
from warren.scheduler.problems import Code, FieldName, Problem
from warren.sql import limits
from warren.sql.models import Limit

#: What limits are called.
LIMIT_NAME = r"[a-z][a-z0-9-]{0,63}"
#: The most limits that one job names, and the most that one of its runs takes of each.
MAX_LIMITS = 10
MAX_WEIGHT = 10_000
_USE = re.compile(rf"({LIMIT_NAME})(?::([1-9][0-9]{{0,4}}))?")


class LimitUse(NamedTuple):
    """A limit by its name, and how much of it each run takes."""

    name: str
    weight: int = 1

    def __str__(self) -> str:
        """Return the shortest form of the field."""
        return self.name if self.weight == 1 else f"{self.name}:{self.weight}"


def use_texts(said: Iterable[str | Mapping[str, int]]) -> Iterator[str]:
    """Yield the texts of uses, some of which are given as {NAME: WEIGHT}."""
    for use in said:
        if isinstance(use, str):
            yield use
        else:
            yield from (str(LimitUse(*pair)) for pair in use.items())


def parse_use(text: str) -> LimitUse | None:
    """Parse NAME or NAME:WEIGHT; return None if it is neither."""
    match = _USE.fullmatch(text)
    if match is None or int(match[2] or 1) > MAX_WEIGHT:
        return None
    return LimitUse(match[1], int(match[2] or 1))


@lru_cache(maxsize=4_096)
def stored_uses(stored: str | None) -> tuple[LimitUse, ...]:
    """Return the limits in a job's row, without invalid entries."""
    return uses_of((stored or "").split(","))


def uses_of(texts: Iterable[str]) -> tuple[LimitUse, ...]:
    """Return the limits in a job's field, without invalid entries."""
    return tuple(use for text in texts if (use := parse_use(text)) is not None)


#: The most of a rate, and its longest period in seconds.
MAX_RATE = 1_000_000
MAX_PER = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSpec:
    """The desired state of a limit; None = not limited.

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
        if near := nearest(name, sorted(self._known)):
            return Problem(Code.LIMIT_UNKNOWN_NEAR, "limits", got=name, near=near)
        return Problem(Code.LIMIT_UNKNOWN, "limits", got=name)
