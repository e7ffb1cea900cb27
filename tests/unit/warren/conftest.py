"""What every test of the front door leaves as it was."""

import pytest


@pytest.fixture(autouse=True)
def _logs_as_before(restored_logs: None) -> None:
    """Commands run inside the tests' process here."""
