"""Ends runs in a separate transaction: reserves ids before it; after it, counts and wakes.

Code that already has a transaction calls `Completion.end` in it.
"""

from collections.abc import Callable, Collection, Sequence

from sqlalchemy.orm import Session

from warren.scheduler.completion.completion import Completion, Tally
from warren.scheduler.completion.end import End
from warren.scheduler.node_context import NodeContext
from warren.sql.errors import NotAllWon


class RunEnder:
    """Ends runs for the roles of one scheduler; `on_ended`, if any, gets them after the commit."""

    def __init__(
        self,
        context: NodeContext,
        completion: Completion,
        on_ended: Callable[[Collection[int]], None] | None = None,
    ) -> None:
        self._context = context
        self._completion = completion
        self._on_ended = on_ended

    def end(self, ends: Sequence[End], *, first: Callable[[Session], None] | None = None) -> Tally:
        """Call `first` and end runs in one transaction; return the tally."""
        if not ends and first is None:
            return Tally()

        def unit(session: Session, *, careful: bool) -> Tally:
            if first is not None:
                first(session)
            return self._completion.end(session, ends, careful=careful) if ends else Tally()

        def write(*, careful: bool) -> Tally:
            return self._context.write_runs(
                lambda session: unit(session, careful=careful),
                has_planned=lambda tally: tally.planned,
            )

        try:
            tally = write(careful=False)
        except NotAllWon:  # one came twice or too late; the others still take the fast path
            tally = write(careful=True)
        self._context.metrics.add(tally.ended)
        if self._on_ended is not None:
            self._on_ended(tally.won.keys())
        return tally
