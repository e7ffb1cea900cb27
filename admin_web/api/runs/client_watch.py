"""Notices clients that have left while their requests wait."""

import selectors
from collections.abc import Mapping

from warren.admin_web.api.runs.held_request import HeldConnection, HeldRequest


class ClientWatch:
    """Watches the sockets of waiting requests. Used from one thread."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._watched: dict[HeldRequest, HeldConnection] = {}
        #: Clients that already sent their next request; their sockets would stay readable.
        self._eager: set[HeldRequest] = set()

    def left(
        self, waiting: Mapping[HeldRequest, HeldConnection], seconds: float
    ) -> list[HeldRequest]:
        """Return the requests whose clients have left, as soon as one has."""
        fresh = waiting.keys() - self._watched.keys() - self._eager
        if closed := [held for held in fresh if not self._is_watchable(held, waiting[held])]:
            return closed
        heard = [key.data for key, _ in self._selector.select(seconds)]
        left = [held for held in heard if waiting[held].has_left()]
        for held in set(heard) - set(left):
            self.forget(held)
            self._eager.add(held)
        return left

    def _is_watchable(self, held: HeldRequest, connection: HeldConnection) -> bool:
        try:
            self._selector.register(connection, selectors.EVENT_READ, held)
        except (ValueError, OSError):
            return False  # its socket is closed
        self._watched[held] = connection
        return True

    def forget(self, held: HeldRequest) -> None:
        """Stop watching a request; its socket may be closed afterwards."""
        self._eager.discard(held)
        if connection := self._watched.pop(held, None):
            self._selector.unregister(connection)
