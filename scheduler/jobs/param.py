"""How large a run's parameter may be; `warren try` asks too, so nothing else is imported here."""

from scheduler.problems import Code, Problem

PARAM_BYTES = 65_536


def check_param(param: str) -> None:
    """Raise Problem unless this can be a run's parameter."""
    size = len(param.encode(errors="replace"))
    if size > PARAM_BYTES:
        raise Problem(Code.PARAM_TOO_LONG, "param", most=PARAM_BYTES, got=size)
