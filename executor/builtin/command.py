"""`warren.command`: runs a program with its arguments, without a shell."""

import os
import signal
import subprocess
from typing import Annotated

import msgspec

from warren.executor.builtin.secrets import Secrets
from warren.executor.handlers.context import JobContext, JobStopped
from warren.executor.handlers.handler_registry import job
from warren.executor.handlers.hooks import JobCode

NAME = "warren.command"
_ExitCode = Annotated[int, msgspec.Meta(ge=0, le=255)]


class Command(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A program, its arguments, and what its exit codes mean. No shell reads them."""

    args: Annotated[
        list[str],
        msgspec.Meta(min_length=1, max_length=1_000, description="The program and its arguments."),
    ]
    folder: Annotated[
        str, msgspec.Meta(description="The working folder; without it, the executor's.")
    ] = ""
    env: Annotated[
        dict[str, str],
        msgspec.Meta(description="More variables; values may name secrets: {secret:NAME}."),
    ] = {}
    success: Annotated[
        list[_ExitCode], msgspec.Meta(description="The exit codes of a success.")
    ] = msgspec.field(default_factory=lambda: [0])
    skipped: Annotated[
        list[_ExitCode], msgspec.Meta(description="The exit codes that skip the run.")
    ] = []


def declare(code: JobCode) -> None:
    def command(context: JobContext, params: Command) -> str:
        """Run a program with its arguments, without a shell."""
        secrets = Secrets.read(code.secrets_file)
        facts = {
            "WARREN_JOB_ID": str(context.job_id),
            "WARREN_KIND": context.kind,
            "WARREN_ATTEMPT": str(context.attempt),
            "WARREN_SHARD_INDEX": str(context.shard_index),
            "WARREN_SHARD_TOTAL": str(context.shard_total),
            "WARREN_SCHEDULED_AT": context.scheduled_at.isoformat(timespec="milliseconds"),
        }
        env = {**os.environ, **facts, **secrets.fill(params.env)}
        try:
            process = subprocess.Popen(  # noqa: S603 - running what the param says is its purpose
                params.args, cwd=params.folder or None, env=env, stdin=subprocess.DEVNULL
            )
        except (OSError, ValueError) as error:
            context.fail(f"cannot run {params.args[0]!r}: {_why(error, params)}", retry=False)
        return _ended(context, params, _wait(process))

    job(NAME)(command)


def _wait(process: "subprocess.Popen[bytes]") -> int:
    """Return the exit code; a stop also signals the program, which may end as it likes."""
    try:
        return process.wait()
    except JobStopped:
        process.wait()  # until the grace time is over
        raise


def _ended(context: JobContext, params: Command, code: int) -> str:
    words = f"exit code {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"
    if code in params.skipped:
        context.skip(words)
    if code not in params.success:
        context.fail(words)
    return words


def _why(error: OSError | ValueError, params: Command) -> str:
    if not isinstance(error, OSError):
        return str(error)  # such as a NUL in an argument
    if params.folder and error.filename == params.folder:
        return f"its folder {params.folder!r}: {error.strerror}"
    return error.strerror or str(error)
