"""Durations as users write them: in seconds, or with a unit."""

import re

#: What error messages say was expected.
DURATION = "a duration such as 90s, 5m, 2h or 1d"
_WRITTEN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


def read_duration(text: str) -> float:
    """Return the seconds of `90`, `90s`, `5m`, `2h` or `1d`.

    Raises:
        ValueError: it is not such a text.

    """
    match = _WRITTEN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"expected {DURATION}, got: {text[:100]!r}")
    return float(match[1]) * _SECONDS[match[2]]
