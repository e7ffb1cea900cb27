"""The lines of a run's log, as they appear."""

import time

from warren.client import calls, wire
from warren.client.answers import LogPart
from warren.client.errors import ApiError
from warren.client.exchange import RETRY_SECONDS, Exchange, Pause, Request
from warren.client.wire import RunId


class FollowedLog:
    """The lines of a run's log from a given one on, as they appear.

    `patience`: for how many seconds after the run's end to ask for the rest of its log.
    """

    def __init__(self, run: RunId, from_line: int, patience: float | None) -> None:
        self._path = wire.run_path(run)
        self._id = run if isinstance(run, int) else run.id
        self._line = from_line
        self._patience = RETRY_SECONDS if patience is None else patience
        self._has_begun = from_line > 1
        self._give_up_at: float | None = None
        self.is_over = False

    def more(self) -> Exchange[list[str]]:
        """Return the next lines, perhaps none.

        Raises:
            ApiError: the run is over, but nobody could return the rest of its log. If not a single
                line was found, the lines just end.

        """
        path = f"{self._path}/log?from_line={self._line}"
        response = yield Request(
            method="GET", path=path, headers=calls.WAIT, wait_seconds=calls.WAIT_SECONDS
        )
        part = wire.value_of(response, LogPart)
        self._line, self.is_over = part.next_line, part.is_end
        if part.text:
            self._has_begun, self._give_up_at = True, None
        elif not part.is_end:
            yield from self._look_again("preference-applied" in response.headers)
        return part.lines

    def _look_again(self, has_waited: bool) -> Exchange[None]:
        """Wait a little; end or raise once the rest of the log can no longer be expected."""
        run_ = yield from calls.get(self._id)
        assert run_.tick is not None
        now = time.monotonic()
        if run_.tick.is_over:
            self._give_up_at = self._give_up_at or now + self._patience
            if now >= self._give_up_at:
                self.is_over = True
                if self._has_begun:
                    words = f"run {self._id} is over, but the rest of its log cannot be read"
                    raise ApiError(0, {"detail": words})
                return
        if run_.tick.is_over or not has_waited:
            yield Pause(1.0)
