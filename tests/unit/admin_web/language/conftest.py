"""A console whose words are read and in which nobody does anything."""

import pytest
from flask import Flask

from tests.support.console import Clock, make_app
from warren.sql.engine import Database


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Flask:
    """One app for all sentences: its database is never opened."""
    folder = tmp_path_factory.mktemp("words")
    return make_app(Database(f"sqlite:///{folder / 'none.db'}"), Clock())
