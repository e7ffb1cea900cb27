"""A sentence that another part of Warren says in English, with places for what differs."""

import re
from dataclasses import dataclass

#: Longer texts are a job's own words.
LONGEST = 600
_PLACE = re.compile(r"%\((\w+)\)s|%%")
#: Places that begin a phrase are narrow, so that it does not fit what a job says.
_FITTING = {
    "address": r"[A-Za-z0-9][A-Za-z0-9._:-]*",
    "kind": r"[A-Z]+",
    "route": r"[A-Z][A-Z0-9_]+",
    "path": r"[a-z][a-z0-9-]+/.+?",
    "n": r"\S+",
    "least": r"[A-Za-z0-9]+",
    "most": r"\S+",
    "numbers": r"[0-9]+-[0-9]+",
    "names": r"[A-Z]+-[A-Z]+",
    "rows": r"[0-9]+",
}


@dataclass(frozen=True, slots=True)
class Phrase:
    """A text with places like `%(name)s`, by which a translation is found, and what fits it."""

    text: str
    pattern: re.Pattern[str]

    def values(self, said: str) -> dict[str, str] | None:
        """Return what stands in the places, None when something else was said."""
        found = self.pattern.fullmatch(said)
        return found.groupdict() if found else None


def phrase(text: str) -> Phrase:
    """Return a phrase; texts in this call are collected for translation."""
    parts, end = [], 0
    for place in _PLACE.finditer(text):
        fitting = _FITTING.get(place[1] or "", ".+?")
        parts += [re.escape(text[end : place.start()])]
        parts += [f"(?P<{place[1]}>{fitting})" if place[1] else "%"]
        end = place.end()
    return Phrase(text, re.compile("".join(parts) + re.escape(text[end:])))
