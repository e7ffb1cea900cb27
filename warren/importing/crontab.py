"""`warren import crontab`: a crontab as a job file; each line becomes a job with a shell script."""

import pwd
import re
import shlex
import shutil
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from warren.errors import CommandError
from warren.jobfile.export import jobs_of_app
from warren.jobfile.five_fields import FIELDS, SHORTCUTS
from warren.jobfile.sources import read_whole
from warren.scheduler.alarms.channels.mail_server import is_email
from warren.scheduler.cron.unix_cron import unix_cron
from warren.scheduler.cron.wall_clock import load_zone
from warren.scheduler.jobs.rules import check_app_name, problems
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.registry import UnixCronSchedule
from warren.views.terminal import warn

_ASSIGNMENT = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|\"[^\"]+\"|'[^']+')\s*=\s*(.*?)\s*$")
_NAME_LENGTH = 60
_WAIT = "wait"
#: A command in the background: at the end of a line, and anywhere.
_ENDS_IN_BACKGROUND = re.compile(r"(?<![&>|\\])&\s*$")
_BACKGROUND = re.compile(r"(?<=[\s)])&(?=[\s;)]|$)", re.MULTILINE)
#: Shells whose scripts bash can run.
_SHELLS = ("sh", "bash", "dash")


@dataclass(slots=True)
class Crontab:
    """The jobs of a crontab, and remarks about some of its lines."""

    specs: list[JobSpec] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Environment:
    """The settings made by earlier lines; `timezone` "" = the scheduler's, None = it is invalid."""

    has_users: bool = False
    users: set[str] = field(default_factory=set)
    variables: dict[str, str] = field(default_factory=dict)
    timezone: str | None = ""
    emails: tuple[str, ...] = ()


def print_crontab(path: Path, *, app: str, timezone: str, is_system: bool = False) -> None:
    """Print a crontab as a job file, and remarks on standard error."""
    with nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as file:
        text = _decoded(read_whole(file, str(path)), str(path))
    now_ms = time.time_ns() // 1_000_000
    crontab = read_crontab(text, app=app, timezone=timezone, now_ms=now_ms, is_system=is_system)
    print(jobs_of_app(app, crontab.specs), end="")
    for words in crontab.remarks:
        warn(words)


def read_crontab(
    text: str, *, app: str, timezone: str, now_ms: int, is_system: bool = False
) -> Crontab:
    """Return the jobs of a crontab; `timezone` "" = the scheduler's.

    The system's crontab (`is_system`) has a column for the user.

    Raises:
        Problem: the app's name or the zone is invalid.

    """
    check_app_name(app)
    if timezone:
        load_zone(timezone)
    crontab, environment = Crontab(), _Environment(timezone=timezone, has_users=is_system)
    taken: set[str] = set()
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        assigned = _ASSIGNMENT.fullmatch(line)
        try:
            if assigned:
                _assign(assigned[1].strip("\"'"), _unquoted(assigned[2]), environment)
                continue
            spec = _job(line.strip(), app, environment, taken)
            _check(spec, now_ms)
            crontab.specs.append(spec)
            crontab.remarks += [f"line {number}: {words}" for words in _doubts(spec)]
        except (ValueError, Problem) as problem:
            crontab.remarks.append(f"line {number} is left out: {problem}: {line.strip()[:100]}")
    crontab.remarks += _remarks(environment.users)
    return crontab


def _remarks(users: Collection[str]) -> Iterator[str]:
    """Yield remarks about the crontab as a whole."""
    if users:
        yield (
            f"the executor's user runs them, not those of the crontab: {', '.join(sorted(users))}"
        )


def _doubts(spec: JobSpec) -> Iterator[str]:
    """Yield what a job may do differently than under cron."""
    script = spec.script_source.rstrip()
    if script.endswith(f"&\n{_WAIT}"):
        yield "its command ends in &, so its job waits for it: a run ends with all its processes"
    elif _BACKGROUND.search(script):
        yield "it starts something with &, which ends with the run unless the command waits for it"


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        words = f"expected UTF-8, got the byte 0x{data[error.start]:02x}"
        raise CommandError(f"{name}:{line}: {words}") from error


def _assign(name: str, value: str, environment: _Environment) -> None:
    if name == "CRON_TZ":
        # If it is invalid, later lines are left out instead of run in the previous zone.
        environment.timezone = None
        load_zone(value)
        environment.timezone = value
    elif name == "SHELL":
        if Path(value).name not in _SHELLS:
            raise ValueError("the commands of later lines run in bash here")
    elif name == "MAILTO":
        emails = tuple(part.strip() for part in value.split(",") if part.strip())
        environment.emails = tuple(email for email in emails if is_email(email))
        if unknown := [email for email in emails if not is_email(email)]:
            raise ValueError(f"not an e-mail address: {', '.join(unknown)}")
    else:
        environment.variables[name] = value


def _job(line: str, app: str, environment: _Environment, taken: set[str]) -> JobSpec:
    when, command = _split(line)
    if environment.has_users:
        user, command = [*command.split(None, 1), "", ""][:2]
        environment.users |= {user} if command else set()
    elif command.split(None, 1)[:1] and _is_user(command):
        raise ValueError(
            f"its command begins with the user {command.split()[0]}: of a system crontab? "
            "use --system"
        )
    if not command:
        raise ValueError("it has no command")
    if environment.timezone is None:
        raise ValueError("the CRON_TZ above it is not a time zone")
    fields = " ".join(when)
    unix_cron(fields, "UTC")  # before a name is taken
    return JobSpec(
        name=_free_name(command, taken),
        app=app,
        schedule_kind=UnixCronSchedule.kind,
        schedule_value=fields,
        timezone=environment.timezone,
        script_language="shell",
        script_source=_script(command, environment.variables),
        alarm_emails=environment.emails,
    )


def _split(line: str) -> tuple[Sequence[str], str]:
    """Return the five fields of a line and its command."""
    if line.startswith("@"):
        word, command = [*line.split(None, 1), ""][:2]
        shortcut = SHORTCUTS.get(word.lower())
        if shortcut is None:
            what = "it runs when the machine boots" if word == "@reboot" else "unknown"
            raise ValueError(f"{word}: {what}")
        return shortcut.split(), command
    parts = line.split(None, len(FIELDS))
    if len(parts) < len(FIELDS):
        raise ValueError("expected five fields and a command")
    return parts[: len(FIELDS)], parts[len(FIELDS)] if len(parts) > len(FIELDS) else ""


def _script(command: str, variables: dict[str, str]) -> str:
    """Return the script for a command; what follows `%` is the input of the whole script.

    It comes before the command, whose comments or quotes could otherwise turn it into commands.
    """
    parts = re.split(r"(?<!\\)%", command)
    run, *fed = (part.replace(r"\%", "%") for part in parts)
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    if _ENDS_IN_BACKGROUND.search(run):
        run = f"{run.rstrip()}\n{_WAIT}"
    lines.append('cd "$HOME"' if "HOME" in variables else "cd ~")
    if fed:
        end = "END_OF_INPUT"
        while end in fed:
            end += "_"
        lines += [f"exec <<'{end}'", *fed, end]
    return "\n".join([*lines, run, ""])


def _is_user(command: str) -> bool:
    """Whether a command begins with the name of a user instead of a program."""
    user, program = [*command.split(None, 2), "", ""][:2]
    if not program or shutil.which(user):
        return False
    try:
        pwd.getpwnam(user)
    except (KeyError, ValueError):
        return False
    return user == "root" or shutil.which(program) is not None


def _free_name(command: str, taken: set[str]) -> str:
    words = re.sub(r"[/\x00-\x1f\x7f-\x9f\s]+", " ", command).strip()
    base = words[:_NAME_LENGTH].strip() or "command"
    name, number = base, 2
    while name in taken:
        name, number = f"{base} {number}", number + 1
    taken.add(name)
    return name


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


def _check(spec: JobSpec, now_ms: int) -> None:
    for problem in problems(spec, now_ms=now_ms):
        raise problem
