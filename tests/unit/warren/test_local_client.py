"""Who acts on the command line."""

import socket

import pytest

from warren.local_client import operator
from warren.scheduler.actor import MAX_NAME_LENGTH


def test_the_name_of_who_runs_the_program_fits_where_it_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "h" * 64)

    assert operator().startswith("cli:")
    assert len(operator()) == MAX_NAME_LENGTH
