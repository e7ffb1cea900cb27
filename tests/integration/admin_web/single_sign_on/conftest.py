"""A console with the usual users, and a provider with a clock like its own."""

from collections.abc import Iterator

import pytest

from tests.support.console import Clock, Visit
from tests.support.console_fixtures import _filled, clock, database
from tests.support.oidc_provider import OidcProvider
from tests.support.sso import CALLBACK, SsoConsole
from warren.sql.engine import Database

__all__ = ["_filled", "clock", "database"]


@pytest.fixture
def provider(clock: Clock) -> Iterator[OidcProvider]:
    with OidcProvider(clock=lambda: clock.now / 1000, redirect_uris=(CALLBACK,)) as provider:
        yield provider


@pytest.fixture
def console(database: Database, clock: Clock, provider: OidcProvider) -> SsoConsole:
    return SsoConsole(database, clock, provider)


@pytest.fixture
def visit(console: SsoConsole) -> Visit:
    """A browser in which nobody has signed in."""
    return console.visit()
