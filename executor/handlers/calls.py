"""What a handler asks for with `JobContext.call`: the name and the param of another job's run."""

import msgspec

from warren.broker.messages.values import JOB_NAME_LIMIT, PARAM_BYTES
from warren.executor.handlers.outcomes import clean
from warren.executor.handlers.params import encode


def checked(job: object, params: object, param: object) -> tuple[str, str | None]:
    """Return the job's name, and the run's param as text; None = the job's own.

    Raises:
        ValueError: a text is too long, or both `params` and `param` are given.
        TypeError: `job` or `param` is not a text, or JSON cannot hold `params`.

    """
    if not isinstance(job, str) or not isinstance(param, str | None):
        wrong = job if not isinstance(job, str) else param
        raise TypeError(f"expected job and param to be texts, got: {wrong!r}")
    if not 0 < len(job) <= JOB_NAME_LIMIT:
        raise ValueError(
            f"expected job to be a name of 1 to {JOB_NAME_LIMIT} characters, got: {job[:100]!r}"
        )
    if params is not None and param is not None:
        raise ValueError("expected params or param, got: both")
    text = param if params is None else _encoded(params)
    if text is not None:
        text = clean(text)
        size = len(text.encode())
        if size > PARAM_BYTES:
            raise ValueError(f"expected a param of up to {PARAM_BYTES} bytes, got: {size}")
    return clean(job), text


def _encoded(params: object) -> str:
    try:
        return encode(params)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise TypeError(f"expected params that JSON can hold, got: {error}") from error
