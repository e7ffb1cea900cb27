"""A route of one's own: STICKY stays with an executor as long as it is online."""

from random import Random

from scheduler.routing.routes import Choice, Router, RouteRequest


def stay(request: RouteRequest, random: Random) -> Choice:
    """Choose the executor of the last run, or any when that one has gone.

    It is pure: all that it may look at is in the request, and chance is handed in.
    """
    last = (request.memory or {}).get("last")
    if last in request.candidates:
        return Choice(last, f"STICKY: {last} as before")
    chosen = random.choice(request.candidates)
    why = f"{last} has gone" if last else "the first run"
    return Choice(chosen, f"STICKY: {chosen}, {why}", {"last": chosen})


#: What the entry point in pyproject.toml leads to; a plain function would do without a memory.
STICKY = Router(stay, needs_memory=True)
