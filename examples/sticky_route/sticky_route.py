"""A custom route: STICKY stays with an executor as long as it is online."""

from random import Random

from warren.routes import Choice, Router, RouteRequest


def stay(request: RouteRequest, random: Random) -> Choice:
    """Choose the executor of the last run, or a random one if that is gone.

    The function is pure: everything it needs, even randomness, is passed in.
    """
    last = (request.memory or {}).get("last")
    if last in request.candidates:
        return Choice(last, f"STICKY: {last}, as before")
    chosen = random.choice(request.candidates)
    why = f"{last} is gone" if last else "first run"
    return Choice(chosen, f"STICKY: {chosen}, {why}", {"last": chosen})


#: The entry point in pyproject.toml names this. Without a memory, a plain function is enough.
STICKY = Router(stay, needs_memory=True)
