"""Hooks around each run: users' generator functions that see its context, then how it ended.

Users import `around_run`, so this imports only the standard library and what it needs of ours.
"""

import inspect
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from warren.executor.handlers.context import JobContext
from warren.executor.handlers.handler_registry import HandlersError, import_source


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a handler ended its run.

    `outcome` is "SUCCEEDED", "SKIPPED" or "FAILED", `message` the run's message, `error` what the
    handler raised, None if nothing.
    """

    outcome: str
    message: str
    error: BaseException | None = None


Hook: TypeAlias = Callable[[JobContext], Generator[None, RunEnd, None]]
AnyHook = TypeVar("AnyHook", bound=Hook)

#: Where `around_run` adds hooks while `load_hooks` imports; otherwise it only checks them.
_collecting: ContextVar[list[Hook] | None] = ContextVar("_collecting_hooks", default=None)


def around_run(hook: AnyHook) -> AnyHook:
    """Call a generator function around each run of the executor.

    It gets the run's `JobContext`, yields once, and gets the `RunEnd` from its `yield`. Whatever it
    raises is written to the run's log, and changes nothing about the run.

    Raises:
        HandlersError: it is not a generator function of one argument.

    """
    count = len(inspect.signature(hook).parameters) if inspect.isgeneratorfunction(hook) else 0
    if count != 1:
        name = getattr(hook, "__qualname__", repr(hook))
        raise HandlersError(
            f"expected hook {name} to be a function of one argument that yields once"
        )
    collected = _collecting.get()
    if collected is not None and hook not in collected:
        collected.append(hook)
    return hook


def load_hooks(modules: Sequence[str]) -> tuple[Hook, ...]:
    """Import modules and return the hooks they declare, in order.

    Raises:
        HandlersError: a module cannot be imported, or declares no hook.

    """
    hooks: list[Hook] = []
    token = _collecting.set(hooks)
    try:
        for name in modules:
            before = len(hooks)
            import_source(name, "hooks")
            if len(hooks) == before:
                raise HandlersError(f"{name!r} declares no hook; declare one with @around_run")
    finally:
        _collecting.reset(token)
    return tuple(hooks)


class RunHooks:
    """The hooks of one run, entered in order and left in the opposite one.

    Args:
        hooks: all of them.
        on_error: called with the name of a hook that failed, and the error.

    """

    def __init__(
        self, hooks: Sequence[Hook], on_error: Callable[[str, BaseException], None]
    ) -> None:
        self._hooks = hooks
        self._on_error = on_error
        self._entered: list[tuple[str, Generator[None, RunEnd, None]]] = []

    def enter(self, context: JobContext) -> None:
        """Run each hook up to its `yield`."""
        for hook in self._hooks:
            name = getattr(hook, "__qualname__", repr(hook))
            try:
                entered = hook(context)
                next(entered)
            except StopIteration:
                self._on_error(name, RuntimeError("it did not yield"))
            except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is logged
                self._on_error(name, error)
            else:
                self._entered.append((name, entered))

    def leave(self, end: RunEnd) -> None:
        """Pass each hook the end of the run."""
        for name, entered in reversed(self._entered):
            try:
                entered.send(end)
                entered.close()
                self._on_error(name, RuntimeError("it yielded twice"))
            except StopIteration:
                continue
            except BaseException as error:  # noqa: BLE001 - as above
                self._on_error(name, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCode:
    """What job processes import: sources of handlers, modules of hooks, and built-in handlers.

    `log_level` is the lowest level of `logging` records that a run's log gets. `http_hosts` is the
    allow-list of `warren.http`, `secrets_file` the file of the secrets that jobs without code name.
    `is_reloaded`: the sources may change twice a second, which Python's compiled files do not show.
    `breakpoint()` stops on the `terminal`; "" = nowhere.
    """

    sources: tuple[str, ...]
    hooks: tuple[str, ...] = ()
    log_level: str = "info"
    builtin: tuple[str, ...] = ()
    http_hosts: str = ""
    secrets_file: str = ""
    is_reloaded: bool = False
    terminal: str = ""


def ended(outcome: Any, message: object, error: BaseException | None) -> RunEnd:
    """Return how a run ended, as hooks see it."""
    return RunEnd(outcome=outcome.value, message=str(message), error=error)
