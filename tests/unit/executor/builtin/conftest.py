"""Built-in handlers, as the zygote declares them."""

from collections.abc import Callable
from typing import Any

import pytest

from warren.executor.builtin import command, http
from warren.executor.handlers.handler_registry import load_handlers
from warren.executor.handlers.hooks import JobCode

Declare = Callable[..., Any]


@pytest.fixture
def declared() -> Declare:
    """Return the function of a built-in handler, for an executor with these settings."""

    def declared(name: str, **settings: Any) -> Any:
        code = JobCode(sources=(), **settings)
        module = {"http": http, "command": command}[name]
        handlers = load_handlers([], declare_more=lambda: module.declare(code))
        return handlers[f"warren.{name}"].function

    return declared
