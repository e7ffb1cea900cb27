"""What somebody may have meant by an unknown name."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

_AFTER = "a flow says which jobs run after which; or name it in `children` of the job before it"
_ENVIRONMENT = "give variables to the executor, or use warren.command, whose param has `env`"
_LIMITED = "WARREN_JOB_LIMITS of the executor limits memory and CPU time of each process"
_TOLD = "use `alarm`"
#: What to use instead of fields that a job has in other schedulers.
INSTEAD: Mapping[str, str] = {
    "after": _AFTER,
    "args": "write the params as JSON in `param`",
    "command": "use `script`, or the handler warren.command",
    "cpu": _LIMITED,
    "cron": "write `schedule: {cron: …}`",
    "depends_on": _AFTER,
    "email": _TOLD,
    "emails": _TOLD,
    "env": _ENVIRONMENT,
    "environment": _ENVIRONMENT,
    "kwargs": "write the params as JSON in `param`",
    "max_instances": "use `concurrency`, and `scope` for where it holds",
    "memory": _LIMITED,
    "needs": _AFTER,
    "notify": _TOLD,
    "on_failure": _TOLD,
    "params": "write them as JSON in `param`",
    "pool": "use `limits` for what jobs share, or `app` for where they run",
    "queue": "use `limits` for what jobs share, or `app` for where they run",
    "resources": _LIMITED,
    "url": "use the handler warren.http",
    "user": "WARREN_JOB_USER of the executor says as whom jobs run",
}
_NOTHING: Mapping[str, str] = MappingProxyType({})


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most like this one; empty if none is."""
    import difflib  # noqa: PLC0415 - rarely needed, and job processes load no more than they must

    return next(iter(difflib.get_close_matches(name, list(known), 1)), "")


def did_you_mean(name: str, known: Iterable[str], instead: Mapping[str, str] = _NOTHING) -> str:
    """Return `, did you mean 'x'?` if a known name is similar, else nothing.

    `instead` says of some names what to use: `: use 'x'`.
    """
    if name in instead:
        return f": {instead[name]}"
    near = nearest(name, known)
    return f", did you mean {str(near)!r}?" if near else ""
