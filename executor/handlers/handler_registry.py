"""Declares handlers, and loads them from modules and files.

Users import it (`from warren import job`), so it imports the standard library only.
"""

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, Unpack, overload

from warren.broker.process_use import ProcessUse
from warren.executor.errors import ExecutorError
from warren.executor.handlers.context import NotATypeOfParams, Params
from warren.executor.handlers.declarations import JobFields, Retry, Schedule, refusal_in
from warren.resources.spelling import INSTEAD, did_you_mean

Function = TypeVar("Function", bound=Callable[..., Any])

#: The longest name of a handler, in characters: the width of the column `executor_handler`.
NAME_LIMIT = 255


class HandlersError(ExecutorError):
    """The handlers cannot be loaded; `traceback` is that of the user's code, possibly empty."""

    def __init__(self, line: str, traceback_text: str = "") -> None:
        super().__init__(line)
        self.line = line
        self.traceback = traceback_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A declared handler; `where` is its `file:line`.

    `params` are those of a typed handler, known once the handlers are loaded.
    `process`: which runs a process serves unless the job decides; None = the executor's default.
    `job` has the fields of the job that it declares; without any, it declares none.
    """

    name: str
    function: Callable[..., Any]
    init: Callable[[], Any] | None = None
    destroy: Callable[[], Any] | None = None
    process: ProcessUse | None = None
    retry: Retry | None = None
    where: str = ""
    params: Params | None = None
    job: Mapping[str, Any] = field(default_factory=dict)


class Handlers(Mapping[str, Handler]):
    """Handlers by name; `declared` counts declarations, including repeated ones."""

    def __init__(self) -> None:
        self._by_name: dict[str, Handler] = {}
        self.declared = 0

    def add(self, handler: Handler) -> None:
        """Add a handler; declaring the same place again (a module imported twice) replaces it.

        Raises:
            HandlersError: another handler has this name.

        """
        other = self._by_name.get(handler.name)
        if other is not None and other.where != handler.where:
            raise HandlersError(
                f"two handlers are named {handler.name!r}: {other.where} and {handler.where}"
            )
        self._by_name[handler.name] = handler
        self.declared += 1

    def find_params(self) -> None:
        """Set the params of typed handlers, once all their types are known.

        Raises:
            HandlersError: a type of params cannot be used.

        """
        from warren.executor.handlers.params import params_of  # noqa: PLC0415 - it needs msgspec, which users' imports of `job` do not

        for name, handler in self._by_name.items():
            try:
                self._by_name[name] = replace(handler, params=params_of(handler.function))
            except NotATypeOfParams as error:
                raise HandlersError(
                    f"expected params of handler {name!r} to have {error} ({handler.where})"
                ) from None

    @property
    def are_awaited(self) -> bool:
        """Whether any of their functions is an `async def`."""
        return any(
            inspect.iscoroutinefunction(function)
            for handler in self._by_name.values()
            for function in (handler.function, handler.init, handler.destroy)
        )

    def __getitem__(self, name: str) -> Handler:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


#: Where `job` registers handlers while `load_handlers` imports; otherwise `job` only checks them.
_collecting: ContextVar[Handlers | None] = ContextVar("_collecting", default=None)


@overload
def job(name: Function, /) -> Function: ...
@overload
def job(
    name: str | None = None,
    *,
    init: Callable[[], Any] | None = None,
    destroy: Callable[[], Any] | None = None,
    process: str | None = None,
    retry: Retry | None = None,
    **fields: Unpack[JobFields],
) -> Callable[[Function], Function]: ...
def job(
    name: Any = None,
    *,
    init: Callable[[], Any] | None = None,
    destroy: Callable[[], Any] | None = None,
    process: str | None = None,
    retry: Retry | None = None,
    **fields: Unpack[JobFields],
) -> Any:
    """Declare a function as the handler `name`, by default the function's name.

    The function takes the `JobContext`, and may take a second argument, its params: a msgspec
    struct, a dataclass, a TypedDict or a pydantic model, made of the run's param. It may be
    `async def`. What it returns becomes the run's message and result. `init` is called once per job
    process before its first run, `destroy` when the process exits; neither takes an argument.
    `process` says which runs a job process serves: "job", "handler" or "fresh"; a job may say
    otherwise, and without it the executor decides. `retry.never` and
    `retry.only` say after which exceptions its runs are retried.

    Any of the other `fields` declares a job too, with this `retry`. No executor creates it: `warren
    jobs apply --from MODULE` does, which also checks the values.

    Raises:
        HandlersError: the name, signature, `process`, `retry` or `schedule` is invalid, a field is
            unknown, or the name is taken.

    """
    if callable(name):
        return _declare(name, name.__name__)
    return lambda function: _declare(
        function,
        function.__name__ if name is None else name,
        init=init,
        destroy=destroy,
        process=process,
        retry=retry,
        fields=fields,
    )


def load_handlers(
    sources: Sequence[str],
    on_source: Callable[[str], None] = lambda _source: None,
    declare_more: Callable[[], None] = lambda: None,
) -> Handlers:
    """Import each source and return the handlers it declares.

    `on_source` is called with each before it is imported. `declare_more` may declare others.

    A source is a dotted module name or the path of a `.py` file. The file's folder (for a module:
    the current folder) is put first on `sys.path`, so that modules beside the handlers are found.

    Raises:
        HandlersError: with the traceback of whatever the import raised; a source declares no
            handler; or two of the folders have a module of the same name that the handlers import.

    """
    handlers = Handlers()
    token = _collecting.set(handlers)
    try:
        for source in sources:
            on_source(source)
            _load_into(handlers, source)
        declare_more()
    except HandlersError:
        _refuse_clashes(sources)  # it may have failed because it got another folder's module
        raise
    finally:
        _collecting.reset(token)
    _refuse_clashes(sources)
    handlers.find_params()
    return handlers


def _declare(
    function: Callable[..., Any],
    name: str,
    *,
    init: Callable[[], Any] | None = None,
    destroy: Callable[[], Any] | None = None,
    process: str | None = None,
    retry: Retry | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LIMIT or name != name.strip():
        raise HandlersError(
            f"expected a handler's name to be text of 1 to {NAME_LIMIT} characters, got: {name!r}"
        )
    where = _where(function)
    _check_arity(
        f"handler {name!r}", function, ("one argument, or two with its params", 1, 2), where
    )
    for role, hook in (("init", init), ("destroy", destroy)):
        if hook is not None:
            _check_arity(f"{role} of handler {name!r}", hook, ("no argument", 0, 0), where)
    if process not in {None, *ProcessUse}:
        uses = ", ".join(ProcessUse)
        raise HandlersError(
            f"expected process of handler {name!r} to be one of {uses}, got: {process!r} ({where})"
        )
    if not isinstance(retry, Retry | None):
        raise HandlersError(
            f"expected retry of handler {name!r} to be a Retry, got: {retry!r} ({where})"
        )
    _check_fields(name, fields or {}, where)
    handlers = _collecting.get()
    if handlers is not None:
        handlers.add(
            Handler(
                name=name,
                function=function,
                init=init,
                destroy=destroy,
                process=None if process is None else ProcessUse(process),
                retry=retry,
                where=where,
                job=fields or {},
            )
        )
    return function


def _check_fields(name: str, fields: Mapping[str, Any], where: str) -> None:
    """Refuse fields that no job has; their values are checked when the job is applied."""
    known = JobFields.__annotations__
    hints = [
        f"unknown field {unknown!r}{did_you_mean(unknown, (*known, 'process', 'retry'), INSTEAD)}"
        for unknown in sorted(set(fields) - set(known))
    ]
    if hints:
        raise HandlersError(f"handler {name!r} has {'; '.join(hints)} ({where})")
    schedule = fields.get("schedule")
    if not isinstance(schedule, Schedule | None):
        raise HandlersError(
            f"expected schedule of handler {name!r} to be cron(…), every(…), delay(…) or at(…), "
            f"got: {schedule!r} ({where})"
        )


def _check_arity(what: str, function: Any, arity: tuple[str, int, int], where: str) -> None:
    words, minimum, maximum = arity
    if not callable(function):
        raise HandlersError(f"expected {what} to be a function, got: {function!r} ({where})")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise HandlersError(f"expected {what} to be a function, got: a generator ({where})")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return  # a builtin without a signature: only a call shows what it takes
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    is_positional = all(parameter.kind in positional for parameter in parameters)
    if not (minimum <= len(parameters) <= maximum and is_positional):
        signature = ", ".join(map(str, parameters))
        raise HandlersError(f"expected {what} to take {words}, got: ({signature}) ({where})")


def _where(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return f"{function!r}"
    return f"{code.co_filename}:{code.co_firstlineno}"


def _load_into(handlers: Handlers, source: str) -> None:
    before = handlers.declared
    module = import_source(source)
    if handlers.declared == before and not _has_any(module, handlers):
        raise HandlersError(f"{source!r} declares no handler; declare one with @job")


def import_source(source: str, what: str = "handlers") -> ModuleType:
    """Import a source of handlers, or of something else.

    Raises:
        HandlersError: with the traceback of whatever the import raised, unless a declaration is
            refused.

    """
    try:
        if _is_path(source):
            return _import_file(Path(source))
        _put_first(Path.cwd())
        return importlib.import_module(source)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # including sys.exit() at import
        # A refused declaration is reported in one line, with its file and line.
        ours = str(error) if isinstance(error, HandlersError) else refusal_in(error)
        line, trace = (ours, "") if ours else (_last_line(error), _users_traceback(error))
        raise HandlersError(f"cannot load {what} from {source!r}: {line}", trace) from error


def _has_any(module: ModuleType, handlers: Handlers) -> bool:
    """Return whether a module that was imported before has some of these handlers."""
    prefix = f"{module.__name__}."
    members = {id(value) for value in vars(module).values()}
    return any(
        id(handler.function) in members
        or f"{getattr(handler.function, '__module__', '')}.".startswith(prefix)
        for handler in handlers.values()
    )


def _is_path(source: str) -> bool:
    return source.endswith(".py") or "/" in source


def _refuse_clashes(sources: Sequence[str]) -> None:
    """Raise if handlers of one folder may have got a module of another's."""
    folders: dict[Path, Path] = {}
    for source in sources:
        if _is_path(source):
            path = Path(source).resolve()
            folders[path] = path.parent
        elif file := getattr(sys.modules.get(source), "__file__", None):
            folders[Path(file).resolve()] = Path.cwd()
    if len(set(folders.values())) > 1:
        from warren.executor.handlers.module_clashes import find_clash  # noqa: PLC0415 - rarely needed, and job processes load no more than they must

        if clash := find_clash(folders):
            raise HandlersError(f"cannot load handlers: {clash}")


def _import_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    _put_first(path.parent)
    name = path.stem
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) != str(path):
        name = f"handlers_of_{name}"  # the file has the name of an imported module
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"expected a Python file, got: {path}")
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _put_first(folder: Path) -> None:
    entry = str(folder)
    if entry in sys.path:
        sys.path.remove(entry)
    sys.path.insert(0, entry)


def _last_line(error: BaseException) -> str:
    return traceback.format_exception_only(error)[-1].strip()


def _users_traceback(error: BaseException) -> str:
    """Return the traceback without the frames of this module and of the import system."""
    frames = error.__traceback__
    while frames is not None and (
        frames.tb_frame.f_code.co_filename == __file__
        or frames.tb_frame.f_code.co_filename.startswith("<frozen importlib")
        or frames.tb_frame.f_code.co_filename == importlib.__file__
    ):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))
