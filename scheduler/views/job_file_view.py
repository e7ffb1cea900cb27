"""What applying a job file has changed, as answers have it."""

from collections.abc import Iterable, Sequence

from warren.resources.job_files import Applied, ChangeAnswer, JobWarning
from warren.scheduler.commands.job_edits import ChangeAction
from warren.scheduler.commands.job_file_preview import Change


def applied_view(
    changes: Sequence[Change],
    warnings: Iterable[tuple[str, str]] = (),
    *,
    dry_run: bool = False,
    over: Iterable[str] = (),
) -> Applied:
    """Return the changes without what stays; `warnings` are pairs of APP/NAME and a sentence."""
    changed = [change for change in changes if change.action is not ChangeAction.UNCHANGED]
    return Applied(
        changes=[
            ChangeAnswer(
                action=change.action.value,
                what=change.what,
                name=change.name,
                details=[*change.details],
                diff=[*change.diff],
                cancelled=change.cancelled,
            )
            for change in changed
        ],
        warnings=[JobWarning(job=job, message=words) for job, words in warnings],
        unchanged=len(changes) - len(changed),
        dry_run=dry_run,
        over=[*over],
    )
