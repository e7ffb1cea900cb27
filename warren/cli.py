"""The root of the command line: its commands, and how errors are shown.

A command's module is imported only when it is used, so `warren --help` is quick. No error ends in a
stack trace on the terminal: errors that users can fix are one line with status 1, wrong usage is
one line with status 2.
"""

import os
import signal
import sys
from importlib import import_module
from typing import NoReturn

import click

from warren.program_name import shown_name
from warren.resources.spelling import nearest

#: Each command: its module, the name in it, and the line in `warren --help`.
COMMANDS = {
    "up": ("warren.command_line.up", "up", "Run everything here, to try Warren out."),
    "scheduler": ("warren.command_line.scheduler", "scheduler", "Run a scheduler."),
    "console": ("warren.command_line.web", "console", "Run the web console."),
    "api": ("warren.command_line.web", "api", "Run the HTTP API."),
    "executor": ("warren.command_line.executor", "executor", "Run an executor of an app."),
    "gateway": ("warren.command_line.executor", "gateway", "Serve executors of XXL-JOB."),
    "try": (
        "warren.command_line.try_",
        "try_handler",
        "Run one handler, without starting any services.",
    ),
    "status": (
        "warren.command_line.status",
        "status",
        "Show which jobs are in trouble, since when and why.",
    ),
    "jobs": (
        "warren.command_line.jobs",
        "jobs",
        "Check, apply, list, start, stop and trigger jobs.",
    ),
    "calendars": (
        "warren.command_line.calendars",
        "calendars",
        "Apply, list and show calendars of working days.",
    ),
    "import": (
        "warren.importing.command_line",
        "import_group",
        "Import jobs from XXL-JOB, cron or Celery.",
    ),
    "runs": (
        "warren.command_line.runs",
        "runs",
        "List, show, move, kill and clear runs; read logs.",
    ),
    "backfill": ("warren.command_line.backfills", "backfill", "Run a job for a range of dates."),
    "backfills": (
        "warren.command_line.backfills",
        "backfills",
        "List, show, pause, resume and cancel backfills.",
    ),
    "limits": ("warren.command_line.limits", "limits", "List, change and delete limits of jobs."),
    "queue": ("warren.command_line.limits", "queue", "List the runs that wait, and what for."),
    "executors": ("warren.command_line.nodes", "executors", "List, show and drain executors."),
    "schedulers": ("warren.command_line.nodes", "schedulers", "List schedulers."),
    "report": ("warren.command_line.report", "report", "Count the runs of each day by outcome."),
    "alarms": ("warren.command_line.alarms", "alarms", "List unsent alarms."),
    "incidents": (
        "warren.command_line.alarms",
        "incidents",
        "List and acknowledge broken expectations.",
    ),
    "apps": ("warren.command_line.jobs", "apps_group", "Add apps."),
    "users": ("warren.command_line.users", "users", "Add and disable users, change passwords."),
    "tokens": ("warren.command_line.tokens", "tokens", "Create and revoke tokens for programs."),
    "sso": (
        "warren.command_line.sso",
        "sso",
        "Apply the rules of single sign-on, link users.",
    ),
    "pause": (
        "warren.command_line.nodes",
        "pause",
        "Stop dispatching runs, for all apps or for one.",
    ),
    "resume": (
        "warren.command_line.nodes",
        "resume",
        "Resume dispatching runs, for all apps or for one.",
    ),
    "login": ("warren.command_line.login", "login", "Let commands use an API as you."),
    "logout": ("warren.command_line.login", "logout", "End the login of `warren login`."),
    "secrets": ("warren.command_line.secrets", "secrets", "Print apps' keys."),
    "db": ("warren.command_line.db", "db", "Create or upgrade the tables."),
    "broker": ("warren.command_line.broker", "broker", "Change the queues of RabbitMQ."),
    "check": (
        "warren.command_line.check",
        "check",
        "Check settings, database, broker and folders.",
    ),
    "audit": (
        "warren.command_line.audit",
        "audit_command",
        "Prove that no tick was lost or fired twice.",
    ),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import a command, in a process whose settings others cannot read from now on."""
        if cmd_name not in COMMANDS:
            return None
        from warren.executor.fork_server.linux import hide_from_others  # noqa: PLC0415 - `warren --help` needs no ctypes

        hide_from_others()
        module, name, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; an unknown one is answered with the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = nearest(args[0], COMMANDS)
            hint = f" Did you mean {near!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, _, words) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Example:
  warren up --jobs examples/handlers.py --apply examples/jobs.yaml
  warren jobs list""",
)
@click.version_option(package_name="warren", message="warren %(version)s")
@click.option("--debug", is_flag=True, help="Show the stack trace of an unexpected error.")
def root(debug: bool) -> None:
    """Run Python functions and scripts on a schedule, on as many machines as you like."""


def main() -> NoReturn:
    """Run the command line and end the process with its status."""
    if os.getpid() == 1:
        # The first process of a container gets only signals for which it has a handler. Commands
        # that run until they are stopped replace this one.
        signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        status = root.main(prog_name=shown_name(), standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, is gone. Keep Python from failing again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - the top: every error becomes a line
        status = _report(error)
        # With this flag, 2 means that something differs.
        sys.exit(min(status, 1) if "--exit-code" in sys.argv else status)
    sys.exit(status if isinstance(status, int) else 0)


def _report(error: Exception) -> int:
    from warren.error_output import report_of  # noqa: PLC0415 - only when something is wrong
    from warren.terminal.output import visible_lines  # noqa: PLC0415 - see above

    report = report_of(error)
    sys.stderr.write(report.preface)
    for line in report.lines:
        print(line if report.is_help else visible_lines(f"error: {line}"), file=sys.stderr)
    if report.is_unexpected and "--debug" in sys.argv:
        raise error
    return report.status
