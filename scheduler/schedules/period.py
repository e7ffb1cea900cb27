"""The value of a schedule that counts seconds."""

import re

from scheduler.cron.cron_fields import echo
from scheduler.problems import Code, Problem

_SECONDS = re.compile(r"0{0,9}[1-9][0-9]{0,8}")


def period_ms(value: str) -> int:
    """Read whole seconds from 1, into milliseconds; raises `Problem`."""
    if not _SECONDS.fullmatch(value):
        raise Problem(Code.PERIOD, got=echo(value))
    return int(value) * 1_000
