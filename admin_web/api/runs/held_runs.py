"""Answers with a run and the state of its tick: at once, or once the tick is over."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from flask import request
from sqlalchemy.orm import Session

from warren.admin_web.api.endpoint import Call, Reply
from warren.admin_web.api.problem_answers import at_parameter
from warren.admin_web.api.runs.run_answers import (
    LONGEST_SECONDS,
    TickEnd,
    Wait,
    applied,
    run_with_tick,
    tick_answer,
)
from warren.admin_web.services import ApiServices
from warren.scheduler.completion.end import Attempt
from warren.scheduler.views.limit_view import in_words, waits_for
from warren.sql.accounts.idempotency import IdempotentRequest
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.listings import ledger, recent
from warren.sql.listings.recent import DetailedRun
from warren.sql.run_status import OPEN
from warren.sql.runs import calls

_KEY = re.compile(r"[\x21-\x7e]{1,128}")
WAIT_HEADER = {
    "Prefer": f"`wait=N`: delay the answer by up to N seconds, {LONGEST_SECONDS} at most."
}
KEY_HEADER = {
    "Idempotency-Key": "1 to 128 visible characters; a key triggers only one run within a day."
}


class HeldRuns:
    """Reads runs that a token may see."""

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    def reply(
        self,
        call: Call,
        run_id: int,
        seconds: float,
        headers: dict[str, str],
        *,
        if_open: int,
        warnings: Sequence[str] = (),
    ) -> Reply | Wait:
        """Return a run; if the caller is willing to wait, only once its tick is over."""

        def reply(call: Call, more: dict[str, str]) -> tuple[Reply, bool]:
            now_ms = self._services.now_ms()
            run, tick, called, waits = self._services.database.read_autocommit(
                lambda session: _with_calls(session, call, run_id, now_ms)
            )
            status = 200 if tick.is_over else if_open
            value = run_with_tick(run, tick, called, waits_for=waits, warnings=warnings)
            return Reply(value=value, status=status, headers=headers | more), tick.is_over

        at_once, is_over = reply(call, {})
        if is_over or not seconds:
            return at_once
        waited = applied(seconds)
        return Wait(
            run_id=run_id,
            seconds=seconds,
            at_once=at_once,
            later=lambda call, _is_last: reply(call, waited)[0],
        )

    def read(self, call: Call, run_id: int) -> tuple[DetailedRun, TickEnd]:
        """Return a run and the state of its tick.

        Raises:
            NotFound: there is no such run, or the caller may not see it.

        """
        return self._services.database.read_autocommit(
            lambda session: _with_tick(session, call, run_id)
        )


def _with_tick(session: Session, call: Call, run_id: int) -> tuple[DetailedRun, TickEnd]:
    run = visible_run(session, call, run_id)
    runs = [run] if _is_alone(run) else tick_runs(session, run)
    return run, tick_answer(run, runs)


def _with_calls(
    session: Session, call: Call, run_id: int, now_ms: int
) -> tuple[DetailedRun, TickEnd, list[int], list[str]]:
    run, tick = _with_tick(session, call, run_id)
    # Nothing that has not started has called.
    called = calls.of_run(session, run) if run.started_at else []
    why = waits_for(session, [run], call.actor, now_ms=now_ms)
    return run, tick, called, in_words(why, run.id)


def visible_run(session: Session, call: Call, run_id: int) -> DetailedRun:
    """Return a run that the caller may see."""
    run = recent.run(session, run_id, call.actor.app_ids)
    if call.actor.job_ids is not None and run.job_id not in call.actor.job_ids:
        raise NotFound(LookupFailure.NO_RUN, id=run_id)
    return run


def tick_runs(session: Session, run: DetailedRun) -> Sequence[Attempt]:
    """Return all runs of a run's tick; the run itself if they were deleted meanwhile."""
    return ledger.of_run(session, run.id) or [run]


def _is_alone(run: DetailedRun) -> bool:
    """Return whether a run was the only one of its tick when it was read.

    A retry is planned in the transaction that ends the attempt before it.
    """
    is_first = run.attempt == 0 and run.rerun_of is None
    return run.status in OPEN and is_first and run.shard_total == 1


def idempotent(asked: list[Any], call: Call) -> IdempotentRequest | None:
    """Return the request with its idempotency key, if it has one; `asked` is what it asks for."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        words = "expected 1 to 128 visible ASCII characters"
        raise at_parameter("Idempotency-Key", words)
    body = msgspec.json.encode([request.path, *asked])
    return IdempotentRequest(
        user_id=call.user_id, key=key, body_hash=hashlib.sha256(body).hexdigest()
    )
