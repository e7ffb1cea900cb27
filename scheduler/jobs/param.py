"""The limit on a run's parameter; `warren try` imports this, so it must import little."""

from warren.broker.messages import PARAM_BYTES
from warren.scheduler.problems import Code, Problem


def check_param(param: str) -> None:
    """Raise Problem if the parameter is longer than PARAM_BYTES in UTF-8."""
    size = len(param.encode(errors="replace"))
    if size > PARAM_BYTES:
        raise Problem(Code.PARAM_TOO_LONG, "param", most=PARAM_BYTES, got=size)
