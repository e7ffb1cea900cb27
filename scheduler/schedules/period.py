"""The value of a schedule in seconds."""

import re

from warren.scheduler.cron.cron_fields import echo
from warren.scheduler.problems import Code, Problem

_SECONDS = re.compile(r"0{0,9}[1-9][0-9]{0,8}")


def period_ms(value: str) -> int:
    """Parse whole seconds, at least 1, into milliseconds; raises `Problem`."""
    if not _SECONDS.fullmatch(value):
        raise Problem(Code.PERIOD, got=echo(value))
    return int(value) * 1_000
