"""Durations as people write them: `90`, `90s`, `5m`, `1h30m`, `2d`. The standard library only.

All durations are read here: those of job files, decorators, settings, options, the API and pages.
"""

import re

#: What an error message says is expected.
DURATION = "a duration such as 90s, 5m, 2h or 1d"
#: The units, the longest first, in seconds.
UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SECONDS = re.compile(r"\d{1,9}(?:\.\d{1,6})?", re.ASCII)
_PARTS = re.compile("".join(rf"(?:(\d{{1,9}}) ?{unit} ?)?" for unit in UNITS), re.ASCII)


def seconds_of(text: str, *, needs_unit: bool = False) -> float | None:
    """Return a duration in seconds; None if the text is not a duration.

    A number without a unit is in seconds, unless `needs_unit`: then it is not a duration. Only
    seconds may have a fraction; of several units, the longer ones come first.
    """
    text = text.strip()
    number = text.removesuffix("s").rstrip(" ")
    if _SECONDS.fullmatch(number):
        if needs_unit and number == text:
            return None
        return float(number) if "." in number else int(number)
    match = _PARTS.fullmatch(text)
    if not text or match is None:
        return None
    parts = zip(match.groups(), UNITS.values(), strict=True)
    return sum(int(count) * unit for count, unit in parts if count)


def whole_seconds(text: str, *, needs_unit: bool = False) -> int | None:
    """Return a duration in seconds; None if it is not one, or not in whole seconds."""
    seconds = seconds_of(text, needs_unit=needs_unit)
    return None if seconds is None or seconds % 1 else int(seconds)


def read_duration(text: str, what: str = "", *, needs_unit: bool = False) -> float:
    """Return a duration in seconds, as `seconds_of` does; `what` names it in an error.

    Raises:
        ValueError: the text is not a duration.

    """
    seconds = seconds_of(text, needs_unit=needs_unit)
    if seconds is None:
        name = f"{what} to be " if what else ""
        raise ValueError(f"expected {name}{DURATION}, got: {text[:100]!r}")
    return seconds


def shown(seconds: int) -> str:
    """Return a duration in hours, minutes and seconds: 5400 is `1h30m`."""
    words = ""
    for unit in "hms":
        count, seconds = divmod(seconds, UNITS[unit])
        words += f"{count}{unit}" if count else ""
    return words or "0s"
