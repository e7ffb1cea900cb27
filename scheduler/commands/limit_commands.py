"""Commands on limits that jobs share; only for administrators, as they hold for all apps."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy.orm import Session

from warren.scheduler import limits as limit_specs
from warren.scheduler.actor import Right
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.commands.job_edits import ChangeAction
from warren.scheduler.limits import LimitSpec, count_going, spec_of, stored_uses
from warren.scheduler.problems import Code, Problem, Refused
from warren.sql import limits
from warren.sql.jobs import job_rows
from warren.sql.models import Limit

#: The most jobs or runs that a refusal names.
NAMED = 5


class LimitCommands:
    """Adds, changes and deletes limits."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def apply(self, spec: LimitSpec) -> ChangeAction:
        """Create a limit, or change it to the spec.

        Runs that hold more than a lowered limit allows go on; no other starts until they have
        ended.

        Raises:
            Refused: the spec is invalid, or a job that names the limit takes more of it.

        """
        if wrong := list(limit_specs.problems(spec)):
            raise Refused(wrong)
        return self._context.write(
            Right.ADMINISTER, lambda session: apply_limits(session, self._context, [spec])[0]
        )

    def delete(self, name: str) -> None:
        """Delete a limit.

        Raises:
            Problem: there is no such limit, jobs name it, or runs hold it.

        """

        def unit(session: Session) -> None:
            limit = limits.lock_named(session, [name]).get(name)
            if limit is None:
                raise Problem(Code.NO_LIMIT_NAMED, name=name[:100])
            _refuse_used(session, limit)
            now_ms = self._context.now_ms()
            before = limit_record(spec_of(limit))
            self._context.note(session, Action.LIMIT_DELETE, name, limit.id, now_ms, before=before)
            limits.remove(session, limit.id)

        self._context.write(Right.ADMINISTER, unit)


def apply_limits(
    session: Session, context: CommandContext, specs: Sequence[LimitSpec]
) -> list[ChangeAction]:
    """Create or change limits in the caller's transaction; return what was done to each.

    Raises:
        Problem: a job takes more of a limit than that allows.

    """
    stored = limits.lock_named(session, [spec.name for spec in specs])
    done = [change_of(stored, spec) for spec in specs]
    refuse_too_small(session, specs)
    now_ms = context.now_ms()
    for spec, action in zip(specs, done, strict=True):
        limit, after = stored.get(spec.name), limit_record(spec)
        if action is ChangeAction.CREATE:
            new = limits.add(session, spec.name, spec.columns() | {"changed_at": now_ms})
            context.note(session, Action.LIMIT_CREATE, spec.name, new.id, now_ms, after=after)
        elif limit is not None and action is ChangeAction.UPDATE:
            before = limit_record(spec_of(limit))
            context.note(
                session,
                Action.LIMIT_UPDATE,
                spec.name,
                limit.id,
                now_ms,
                before=before,
                after=after,
            )
            changed = _changed_columns(limit, spec) | {"changed_at": now_ms}
            limits.change(session, limit.id, changed)
    changed_names = {
        spec.name for spec, action in zip(specs, done, strict=True) if action is ChangeAction.UPDATE
    }
    if changed_names:
        taking = [job.id for job in limits.jobs_naming(session)]
        known = job_rows.for_runs(session, taking).values()
        count_going(session, known, now_ms=now_ms, named=changed_names)
    return done


def change_of(stored: Mapping[str, Limit], spec: LimitSpec) -> ChangeAction:
    """Return what applying a limit does, given those that are stored."""
    limit = stored.get(spec.name)
    if limit is None:
        return ChangeAction.CREATE
    return ChangeAction.UNCHANGED if spec_of(limit) == spec else ChangeAction.UPDATE


def limit_record(spec: LimitSpec) -> dict[str, int | None]:
    """Return what the audit log keeps of a limit."""
    return {"at_once": spec.at_once, "rate": spec.rate, "per": spec.per}


def _changed_columns(limit: Limit, spec: LimitSpec) -> dict[str, int | None]:
    columns = spec.columns()
    if (limit.rate, limit.per_ms) != (columns["rate"], columns["per_ms"]):
        columns |= {"tokens": None, "refilled_at": None}  # a new bucket is full
    return columns


def refuse_too_small(
    session: Session, specs: Sequence[LimitSpec], *, without: Collection[tuple[str, str]] = ()
) -> None:
    """Raise Problem if a job, by app and name, takes more of a limit than it would ever have."""
    numbers = {spec.name: number for number, spec in enumerate(specs)}
    for job in limits.jobs_naming(session) if specs else ():
        for use in stored_uses(job.limits):
            number = numbers.get(use.name)
            if number is None or (job.app, job.name) in without:
                continue
            if use.weight > (most := specs[number].most):
                facts = {"limit": use.name, "n": use.weight, "most": most}
                at, name = f"limits/{number}/at_once", f"{job.app}/{job.name}"
                raise Problem(Code.LIMIT_TAKEN, at, name=name, **facts)


def _refuse_used(session: Session, limit: Limit) -> None:
    named = [
        f"{job.app}/{job.name}"
        for job in limits.jobs_naming(session)
        if limit.name in {use.name for use in stored_uses(job.limits)}
    ]
    if named:
        raise Problem(Code.LIMIT_NAMED, name=limit.name, jobs=_shortened(named))
    if runs := [f"#{holder.run_id}" for holder in limits.holders(session, [limit.id])]:
        raise Problem(Code.LIMIT_HELD, name=limit.name, runs=_shortened(runs))


def _shortened(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
