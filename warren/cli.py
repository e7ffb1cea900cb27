"""The command line's root: which commands there are, and what becomes of their errors.

A command's module is imported when it is used and not before, so `warren --help` is quick. No
error ends in a stack trace on the terminal: what a user can put right is one line and status 1,
wrong usage one line and status 2.
"""

import os
import sys
from importlib import import_module
from typing import NoReturn

import click

#: Each command: its module, the name in it, and the line in `warren --help`.
COMMANDS = {
    "up": ("warren.up_command", "up", "Run everything here: scheduler, executors, database."),
    "scheduler": ("warren.scheduler_command", "scheduler", "Run a scheduler."),
    "console": ("warren.console_command", "console", "Run the web console."),
    "executor": ("warren.executor_command", "executor", "Run an executor of an app."),
    "try": ("warren.try_command", "try_handler", "Run one handler here and now."),
    "jobs": ("warren.jobs_commands", "jobs", "Apply, export, show, start, stop and trigger jobs."),
    "runs": ("warren.runs_commands", "runs", "Show, read, kill and clear runs."),
    "executors": ("warren.node_commands", "executors", "Show the executors."),
    "schedulers": ("warren.node_commands", "schedulers", "Show the schedulers."),
    "report": ("warren.report_command", "report", "Count the runs of each day by outcome."),
    "alarms": ("warren.alarms_commands", "alarms", "Show the alarms that wait."),
    "users": ("warren.users_commands", "users", "Add users of the console, change passwords."),
    "pause": ("warren.node_commands", "pause", "Stop sending runs, everywhere."),
    "resume": ("warren.node_commands", "resume", "Go on sending runs."),
    "db": ("warren.db_commands", "db", "Make or upgrade the tables."),
    "check": ("warren.check_command", "check", "Check settings, database, broker and folders."),
    "audit": (
        "warren.audit_command",
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
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module, name, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the list of commands without importing one."""
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
    """Schedule jobs and run each in a process of its own."""


def main() -> NoReturn:
    """Run the command line and end the process with its status."""
    try:
        status = root.main(prog_name="warren", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, `head` for one, has seen enough. Python would complain at its end again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - the top: every error becomes a line
        sys.exit(_report(error))
    sys.exit(status if isinstance(status, int) else 0)


def _report(error: Exception) -> int:
    from warren.complaints import complaint  # noqa: PLC0415 - only when something is wrong

    said = complaint(error)
    sys.stderr.write(said.preface)
    for line in said.lines:
        print(line if said.is_help else f"error: {line}", file=sys.stderr)
    if said.is_unexpected and "--debug" in sys.argv:
        raise error
    return said.status
