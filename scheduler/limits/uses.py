"""Which limits a job's runs take, as its field `limits` says: NAME, or NAME:WEIGHT."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

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
    """Yield the texts of uses of which some are said as {NAME: WEIGHT}."""
    for use in said:
        if isinstance(use, str):
            yield use
        else:
            yield from (str(LimitUse(*pair)) for pair in use.items())


def parse_use(text: str) -> LimitUse | None:
    """Return what NAME or NAME:WEIGHT says; None if it is neither."""
    match = _USE.fullmatch(text)
    if match is None or int(match[2] or 1) > MAX_WEIGHT:
        return None
    return LimitUse(match[1], int(match[2] or 1))


@lru_cache(maxsize=4_096)
def stored_uses(stored: str | None) -> tuple[LimitUse, ...]:
    """Return what a job's row says; what is no use is left out."""
    return uses_of((stored or "").split(","))


def uses_of(texts: Iterable[str]) -> tuple[LimitUse, ...]:
    """Return what a job's field says; what is no use is left out."""
    return tuple(use for text in texts if (use := parse_use(text)) is not None)
