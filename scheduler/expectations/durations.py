"""Durations as people write them, such as `90s`, `5m`, `26h` and `1h30m`. Pure."""

import re

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:(\d{1,3})d)?(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,8})s)?", re.ASCII)
_SECONDS = re.compile(r"\d{1,8}", re.ASCII)
#: The longest duration, in seconds: a year.
LONGEST = 366 * 86_400


def seconds_of(text: str) -> int | None:
    """Return a duration in seconds, from 1 to LONGEST; digits alone are seconds.

    None if it is no such duration.
    """
    if _SECONDS.fullmatch(text):
        seconds = int(text)
    elif text and (found := _DURATION.fullmatch(text)):
        parts = zip(found.groups(), _UNITS.values(), strict=True)
        seconds = sum(int(count) * unit for count, unit in parts if count)
    else:
        return None
    return seconds if 1 <= seconds <= LONGEST else None


def shown(seconds: int) -> str:
    """Return a duration in hours, minutes and seconds: 5400 is `1h30m`."""
    words = ""
    for unit in "hms":
        count, seconds = divmod(seconds, _UNITS[unit])
        words += f"{count}{unit}" if count else ""
    return words or "0s"
