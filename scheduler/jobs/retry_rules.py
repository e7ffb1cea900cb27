"""Which retries a job may have, and their two forms.

A job file, and a job in the API, may say `retry: {times: 3, delay: 60}` or, in short, `retries: 3`
and `retry_delay: 60`.
"""

from collections.abc import Iterator, Mapping

from warren.scheduler.jobs.spec import FIELDS, SHORT_RETRY, JobSpec
from warren.scheduler.problems import Code, FieldName, Problem
from warren.sql.models.jobs import Backoff

_DELAY, _MOST, _BACKOFF = (FIELDS[name] for name in ("retry_delay", "retry_most", "retry_backoff"))


def problems(spec: JobSpec) -> Iterator[Problem]:
    """Yield what does not fit together in a job's retries."""
    if spec.retry_most and spec.retry_most < spec.retry_delay:
        facts = {"what": FieldName(_MOST.name), "delay": spec.retry_delay, "got": spec.retry_most}
        yield Problem(Code.RETRY_MOST, _MOST.pointer, **facts)
    if spec.retry_backoff == Backoff.EXPONENTIAL and not spec.retry_delay:
        yield Problem(Code.RETRY_DELAY, _BACKOFF.pointer)


def in_short(short: Mapping[str, int], group: Mapping[str, int]) -> dict[str, int]:
    """Return `retries` and `retry_delay` as the group `retry` says them with its own keys.

    Args:
        short: those that are given in short, by their names.
        group: what is given in the group, by key.

    Raises:
        Problem: one is given in both forms, with different values.

    """
    meant = {SHORT_RETRY[key].name: value for key, value in group.items() if key in SHORT_RETRY}
    for key, field in SHORT_RETRY.items():
        said = short.get(field.name)
        if said is not None and meant.get(field.name, said) != said:
            facts = {"short": field.name, "said": said, "key": key, "got": group[key]}
            raise Problem(Code.RETRY_CONTRADICTED, f"retry/{key}", **facts)
    return meant
