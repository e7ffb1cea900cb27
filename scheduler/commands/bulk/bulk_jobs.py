"""Commands on many jobs: a transaction for each job, but deletions in batches."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

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
        return _each(job_ids, lambda job_id: _switched(self._jobs.stop(job_id)))

    def undo_stop(self, job_ids: Sequence[int], stopped: range) -> Iterator[Part]:
        """Start the schedules that this actor stopped within `stopped`, in epoch milliseconds."""
        return _each(
            job_ids, lambda job_id: _switched(self._jobs.undo_stop(job_id, stopped=stopped))
        )

    def trigger(self, job_ids: Sequence[int], form: FormKey) -> Iterator[Part]:
        """Run jobs once, each with its own param; a form sent twice triggers once."""

        def act(job_id: int) -> Outcome:
            key = f"{form.key}:job/{job_id}"
            once = IdempotentRequest(user_id=form.user_id, key=key, body_hash="")
            is_new = self._runs.trigger_once(job_id, once=once).is_new
            return Outcome.DONE if is_new else Outcome.REPEATED

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
                    yield Part(Counter({Outcome.DONE: deleted}))
            if len(refused) == len(pending):
                yield _refused([problem for _, problem in refused])
                return
            pending = [job_id for job_id, _ in refused]

    def _delete(self, job_ids: Sequence[int]) -> tuple[int, list[tuple[int, Problem]]]:
        """Delete jobs together, or else one by one; return how many, and the refusals by id."""
        try:
            return len(self._jobs.delete(job_ids)), []
        except Problem as problem:
            if len(job_ids) == 1:
                return 0, [(job_ids[0], problem)]
        deleted, refused = 0, []
        for job_id in job_ids:
            count, problems = self._delete([job_id])
            deleted += count
            refused += problems
        return deleted, refused


def _each(job_ids: Sequence[int], act: Callable[[int], Outcome]) -> Iterator[Part]:
    for part in chunks(job_ids, PART):
        counts, problems = Counts(), []
        for job_id in part:
            try:
                counts[act(job_id)] += 1
            except Problem as problem:
                problems.append(problem)
        refused = _refused(problems)
        yield Part(counts + refused.counts, refused.problems)


def _refused(problems: Sequence[Problem]) -> Part:
    unknown = sum(problem.code.kind is ProblemKind.UNKNOWN for problem in problems)
    counts = {Outcome.UNKNOWN: unknown, Outcome.REFUSED: len(problems) - unknown}
    known = (problem for problem in problems if problem.code.kind is not ProblemKind.UNKNOWN)
    return Part(Counter(counts), tuple(known))


def _switched(is_changed: bool) -> Outcome:
    return Outcome.DONE if is_changed else Outcome.NOTHING
