"""A folder of feeds for all tests; job processes find it in their environment."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from acme_jobs.handlers import FEED

ROWS = "shop,amount\nberlin,10.50\nberlin,4.50\nhamburg,5.00\n"


@pytest.fixture(scope="session", autouse=True)
def feeds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder, with the feed of 2026-12-01."""
    folder = tmp_path_factory.mktemp("feed")
    (folder / "2026-12-01.csv").write_text(ROWS)
    os.environ[FEED] = str(folder)
    yield folder
    del os.environ[FEED]
