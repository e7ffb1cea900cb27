"""Commands on many jobs: a transaction for each job, but deletions in batches."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from warren.scheduler.commands.bulk.reruns import Counts, Outcome, Part
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.jobs import JobCommands
from warren.scheduler.commands.runs import RunCommands
from warren.scheduler.problems import Problem, ProblemKind
from warren.sql.accounts.idempotency import FormKey, IdempotentRequest
from warren.sql.batch import chunks

#: Jobs per reported part, and jobs deleted in one transaction.
PART, DELETE_BATCH = 20, 100


class BulkJobCommands:
    """Acts on many jobs on behalf of one actor. Each method yields the outcomes part by part."""

    def __init__(self, context: CommandContext) -> None:
        self._jobs = JobCommands(context)
        self._runs = RunCommands(context)

    def start(self, job_ids: Sequence[int]) -> Iterator[Part]:
        """Start schedules."""
        return _each(job_ids, lambda job_id: _switched(self._jobs.start(job_id)))

    def stop(self, job_ids: Sequence[int]) -> Iterator[Part]:
        """Stop schedules."""

        def act(job_id: int) -> _Done:
            stopped = self._jobs.stop(job_id)
            return _Done(Outcome.DONE, stopped.cancelled) if stopped else _Done(Outcome.NOTHING)

        return _each(job_ids, act)

    def undo_stop(self, job_ids: Sequence[int], stopped: range) -> Iterator[Part]:
        """Start the schedules that this actor stopped within `stopped`, in epoch milliseconds."""
        return _each(
            job_ids, lambda job_id: _switched(self._jobs.undo_stop(job_id, stopped=stopped))
        )

    def trigger(self, job_ids: Sequence[int], form: FormKey) -> Iterator[Part]:
        """Run jobs once, each with its own param; a form sent twice triggers once."""

        def act(job_id: int) -> _Done:
            key = f"{form.key}:job/{job_id}"
            once = IdempotentRequest(user_id=form.user_id, key=key, body_hash="")
            is_new = self._runs.trigger_once(job_id, once=once).is_new
            return _Done(Outcome.DONE if is_new else Outcome.REPEATED)

        return _each(job_ids, act)

    def delete(self, job_ids: Sequence[int]) -> Iterator[Part]:
        """Delete jobs.

        A job that another one has as a child is tried again after that one was deleted.
        """
        pending = list(job_ids)
        while pending:
            refused: list[tuple[int, Problem]] = []
            for part in chunks(pending, DELETE_BATCH):
                deleted, problems = self._delete(part)
                refused += problems
                if deleted:
                    done = Counter({Outcome.DONE: len(deleted)})
                    yield Part(done, cancelled=sum(deleted))
            if len(refused) == len(pending):
                yield _refused([problem for _, problem in refused])
                return
            pending = [job_id for job_id, _ in refused]

    def _delete(self, job_ids: Sequence[int]) -> tuple[list[int], list[tuple[int, Problem]]]:
        """Delete jobs together, or else one by one.

        Returns how many planned runs of each deleted job that cancelled, and the refusals by id.
        """
        try:
            return list(self._jobs.delete(job_ids).values()), []
        except Problem as problem:
            if len(job_ids) == 1:
                return [], [(job_ids[0], problem)]
        deleted: list[int] = []
        refused: list[tuple[int, Problem]] = []
        for job_id in job_ids:
            cancelled, problems = self._delete([job_id])
            deleted += cancelled
            refused += problems
        return deleted, refused


class _Done(NamedTuple):
    """What became of one job, and how many of its planned runs were cancelled."""

    outcome: Outcome
    cancelled: int = 0


def _each(job_ids: Sequence[int], act: Callable[[int], _Done]) -> Iterator[Part]:
    for part in chunks(job_ids, PART):
        counts, problems, cancelled = Counts(), [], 0
        for job_id in part:
            try:
                done = act(job_id)
                counts[done.outcome] += 1
                cancelled += done.cancelled
            except Problem as problem:
                problems.append(problem)
        refused = _refused(problems)
        yield Part(counts + refused.counts, refused.problems, cancelled)


def _refused(problems: Sequence[Problem]) -> Part:
    unknown = sum(problem.code.kind is ProblemKind.UNKNOWN for problem in problems)
    counts = {Outcome.UNKNOWN: unknown, Outcome.REFUSED: len(problems) - unknown}
    known = (problem for problem in problems if problem.code.kind is not ProblemKind.UNKNOWN)
    return Part(Counter(counts), tuple(known))


def _switched(is_changed: bool) -> _Done:
    return _Done(Outcome.DONE if is_changed else Outcome.NOTHING)
