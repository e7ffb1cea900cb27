"""Sends errands: short commands ask here for what they print."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from warren.errands.ways import way_of
from warren.settings.settings import Settings
from warren.views.output import Output, print_output


class Sender(Protocol):
    """Does errands on a database, or by an API."""

    def send(self, name: str, /, **options: Any) -> Output:
        """Do an errand and return its output.

        Raises:
            Exception: whatever was wrong.

        """

    def await_end(self, run_id: int) -> None:
        """Wait until the whole tick of a run is over."""

    def print_log(self, run_id: int, *, follow: bool) -> None:
        """Print the log of a run; with `follow`, until the run has ended."""


@contextmanager
def open_sender(settings: Settings) -> Iterator[Sender]:
    """Yield the sender that the settings ask for."""
    api = way_of(settings).api
    if api is not None:
        from warren.errands.by_api import ApiSender  # noqa: PLC0415 - commands need one of the two

        with ApiSender(api, settings.timezone) as sender:
            yield sender
        return
    from warren.errands.on_database import DatabaseSender  # noqa: PLC0415 - as above

    with DatabaseSender(settings) as sender:
        yield sender


def send(settings: Settings, name: str, /, **options: Any) -> int:
    """Do an errand, print its output and return the exit status."""
    with open_sender(settings) as sender:
        output = sender.send(name, **options)
    print_output(output)
    return output.status
