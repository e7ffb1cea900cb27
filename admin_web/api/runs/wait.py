"""What a view returns if its answer may come later, and how long the client is willing to wait."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from flask import request

from warren.admin_web.api.endpoint import Call, Reply
from warren.admin_web.api.refusals import at_parameter

#: Seconds that a request waits at most.
LONGEST_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a view returns if the answer may come later.

    Attributes:
        run_id: the answer comes when the whole tick of this run is over.
        seconds: how long it may be held.
        at_once: the answer if it cannot be held.
        later: returns the answer, or None = not yet, ask again. Its arguments are the call as it is
            admitted then, without query and body, and whether it must answer now.
        is_polled: whether to ask `later` from time to time before the tick is over.

    """

    run_id: int
    seconds: float
    at_once: Reply
    later: Callable[[Call, bool], Reply | None]
    is_polled: bool = False


def applied(seconds: float) -> dict[str, str]:
    """Return the header of an answer to a request that was held, for at most so long."""
    return {"Preference-Applied": f"wait={int(seconds)}"}


def preferred_wait_seconds() -> float:
    """Return how long the client is willing to wait (`Prefer: wait=30`); 0 by default."""
    for preference in request.headers.get("Prefer", "").split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() != "wait":
            continue
        text = value.strip().strip('"')
        if not re.fullmatch("[0-9]{1,6}", text) or int(text) > LONGEST_SECONDS:
            raise at_parameter("Prefer", f"expected wait to be 0 to {LONGEST_SECONDS} seconds")
        return float(text)
    return 0.0
