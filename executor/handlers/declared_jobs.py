"""Writes out the jobs that handlers declare, as the mappings of a job file.

`python -m warren.executor.handlers.declared_jobs MODULE…` prints them as JSON, so that users' code
is imported by a process of its own, which knows no secret.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from warren.executor.handlers.declarations import Retry, Schedule
from warren.executor.handlers.handler_registry import Handler, HandlersError, load_handlers


def mapping_of(handler: Handler) -> dict[str, Any]:
    """Return the job that a handler declares; empty if it declares none."""
    declared = dict(handler.job)
    if not declared:
        return {}
    name = declared.pop("job_name", handler.name)
    job: dict[str, Any] = {"name": name, "handler": handler.name} | declared
    if "schedule" in declared:
        job["schedule"] = _schedule(declared["schedule"])
    if "param" in declared:
        job["param"] = _param(declared["param"])
    if handler.retry is not None and (retry := _retry(handler.retry)):
        job["retry"] = retry
    return {field: value for field, value in job.items() if value is not None}


def _schedule(schedule: Schedule | None) -> dict[str, Any] | None:
    if schedule is None:
        return None
    zone = {"timezone": schedule.zone} if schedule.zone else {}
    options = {name.removesuffix("_"): value for name, value in schedule.options.items()}
    return {schedule.keyword: schedule.value} | zone | options


def _param(param: object) -> str | None:
    from warren.executor.handlers.params import encode  # noqa: PLC0415 - most jobs have no param

    return param if isinstance(param, str | None) else encode(param)


def _retry(retry: Retry) -> dict[str, Any]:
    """Return the job's part of a retry, without defaults; `never` and `only` are the handler's."""
    names = [part.name for part in fields(retry) if part.name not in {"never", "only"}]
    defaults = {part.name: part.default for part in fields(retry)} | {"times": 0}
    values = {name: getattr(retry, name) for name in names}
    return {name: value for name, value in values.items() if value != defaults[name]}


def report(sources: Sequence[str]) -> dict[str, Any]:
    """Return the handlers of modules and files, and the jobs that they declare; or the error."""
    try:
        handlers = load_handlers(sources)
    except HandlersError as error:
        return {"fault": error.line, "traceback": error.traceback}
    jobs = []
    for handler in handlers.values():
        try:
            job = mapping_of(handler)
        except Exception as error:  # noqa: BLE001 - users' params may raise anything
            line = f"cannot write param of handler {handler.name!r}: {error} ({handler.where})"
            return {"fault": line, "traceback": ""}
        if job:
            jobs.append({"handler": handler.name, "where": handler.where, "job": job})
    schemas = {name: handlers[name].params for name in sorted(handlers)}
    known = {name: params.schema if params else "" for name, params in schemas.items()}
    return {"handlers": known, "jobs": jobs}


def main(sources: Sequence[str]) -> None:
    """Print the report; what users' modules print while they are imported goes to stderr."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with answer:
        json.dump(report(sources), answer, default=repr)


if __name__ == "__main__":
    main(sys.argv[1:])
