"""`warren import crontab`: a crontab as a job file; each line becomes a job with a shell script."""

import pwd
import re
import shlex
import shutil
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path

from warren.errors import CommandError
from warren.importing.foreign import ForeignJobs
from warren.jobfile.five_fields import FIELDS, SHORTCUTS
from warren.jobfile.sources import read_whole
from warren.scheduler.alarms.addresses import is_email
from warren.scheduler.cron.expression import unix_cron
from warren.scheduler.cron.wall_clock import check_zone
from warren.scheduler.jobs.rules import check_app_name, problems
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.names import without_invisible
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.options import MAX_JITTER, ScheduleOptions
from warren.scheduler.schedules.registry import UnixCronSchedule

_ASSIGNMENT = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|\"[^\"]+\"|'[^']+')\s*=\s*(.*?)\s*$")
_NAME_LENGTH = 60
_WAIT = "wait"
#: A command in the background: at the end of a line, and anywhere.
_ENDS_IN_BACKGROUND = re.compile(r"(?<![&>|\\])&\s*$")
_BACKGROUND = re.compile(r"(?<=[\s)])&(?=[\s;)]|$)", re.MULTILINE)
#: Shells whose scripts bash can run.
_SHELLS = ("sh", "bash", "dash")
#: cron gives a command these variables, whatever the crontab says of them, and a shell.
_WHO = ("LOGNAME", "USER")
_OF_CRON = 'export LOGNAME="$(id -un)" USER="$(id -un)"'


@dataclass(slots=True)
class _Environment:
    """The settings made by earlier lines; `timezone` "" = the scheduler's, None = it is invalid.

    `delay` is the most minutes of a random delay.
    """

    has_users: bool = False
    users: set[str] = field(default_factory=set)
    variables: dict[str, str] = field(default_factory=dict)
    timezone: str | None = ""
    emails: tuple[str, ...] = ()
    delay: int = 0


def print_crontab(path: Path, *, app: str, timezone: str, is_system: bool = False) -> None:
    """Print a crontab as a job file, and remarks on standard error."""
    with nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as file:
        text = _decoded(read_whole(file, str(path)), str(path))
    now_ms = time.time_ns() // 1_000_000
    read_crontab(text, app=app, timezone=timezone, now_ms=now_ms, is_system=is_system).print(app)


def read_crontab(
    text: str, *, app: str, timezone: str, now_ms: int, is_system: bool = False
) -> ForeignJobs:
    """Return the jobs of a crontab; `timezone` "" = the scheduler's.

    The system's crontab (`is_system`) has a column for the user.

    Raises:
        Problem: the app's name or the zone is invalid.

    """
    check_app_name(app)
    if timezone:
        check_zone(timezone)
    crontab, environment = ForeignJobs(), _Environment(timezone=timezone, has_users=is_system)
    taken: set[str] = set()
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        assigned = _ASSIGNMENT.fullmatch(line)
        try:
            if assigned:
                words = _assign(assigned[1].strip("\"'"), _unquoted(assigned[2]), environment)
                crontab.remarks += [f"line {number}: {words}"] if words else []
                continue
            wanted = _job(line.strip(), app, environment, taken)
            spec = _checked(wanted, now_ms)
            crontab.specs.append(spec)
            crontab.remarks += [f"line {number}: {words}" for words in _doubts(spec, wanted)]
        except (ValueError, Problem) as problem:
            crontab.remarks.append(f"line {number} is left out: {problem}: {line.strip()[:100]}")
    crontab.remarks += _remarks(environment.users, text)
    return crontab


def _remarks(users: Collection[str], text: str) -> Iterator[str]:
    """Yield remarks about the crontab as a whole."""
    last = text.rpartition("\n")[2].strip()
    if last and not last.startswith("#"):
        number = text.count("\n") + 1
        yield f"line {number} has no line feed at its end: cron leaves such a line out"
    if users:
        yield (
            f"the executor's user runs them, not those of the crontab: {', '.join(sorted(users))}"
        )


def _doubts(spec: JobSpec, wanted: JobSpec) -> Iterator[str]:
    """Yield what a job may do differently than under cron; `wanted` may have a longer jitter."""
    if spec.schedule_options != wanted.schedule_options:
        delay = wanted.schedule_options.jitter
        yield f"RANDOM_DELAY of {delay} is no less than the time between two runs: it has no jitter"
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


def _assign(name: str, value: str, environment: _Environment) -> str:
    """Make a setting; return a remark about it, or nothing.

    Raises:
        ValueError, Problem: it cannot be made.

    """
    if name == "CRON_TZ":
        # If it is invalid, later lines are left out instead of run in the previous zone.
        environment.timezone = None
        environment.variables.pop(name, None)
        check_zone(value)
        environment.timezone = environment.variables[name] = value
    elif name in _WHO:
        raise ValueError(f"cron sets {name} itself, to the user who runs the command")
    elif name == "RANDOM_DELAY":
        environment.delay = 0
        if not re.fullmatch(r"[0-9]{1,4}", value) or int(value) * 60 > MAX_JITTER:
            raise ValueError("expected up to 1440 minutes")
        environment.delay = int(value)
        environment.variables[name] = value
    elif name == "SHELL":
        environment.variables[name] = value
        if Path(value).name not in _SHELLS:
            return "the commands of later lines run in bash here"
    elif name == "MAILTO":
        environment.variables[name] = value
        emails = tuple(part.strip() for part in value.split(",") if part.strip())
        environment.emails = tuple(email for email in emails if is_email(email))
        if unknown := [email for email in emails if not is_email(email)]:
            names = ", ".join(unknown)
            return f"alarms go to e-mail addresses, not to users of the machine: {names}"
    else:
        environment.variables[name] = value
    return ""


def _job(line: str, app: str, environment: _Environment, taken: set[str]) -> JobSpec:
    if foreign := _foreign(line):
        raise ValueError(foreign)
    when, command = _split(line)
    if environment.has_users:
        user, command = [*command.split(None, 1), "", ""][:2]
        if command and not re.match(r"[A-Za-z_]", user):
            raise ValueError(f"expected a user before the command, got: {user[:40]!r}")
        environment.users |= {user} if command else set()
    elif command.split(None, 1)[:1] and _is_user(command):
        raise ValueError(
            f"its command begins with the user {command.split()[0]}: of a system crontab? "
            "use --system"
        )
    if not command:
        raise ValueError("it has no command")
    if command.startswith("*"):
        raise ValueError("cron refuses a command that begins with *")
    if flag := _OPENBSD_FLAG.match(command):
        raise ValueError(
            f"its command begins with {flag[1]}, a flag of the crons of OpenBSD and FreeBSD: leave "
            "it out"
        )
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
        schedule_options=(
            ScheduleOptions.of({"jitter": f"{environment.delay}m"})
            if environment.delay
            else ScheduleOptions()
        ),
        script_language="shell",
        script_source=_script(command, environment.variables),
        alarm_emails=environment.emails,
    )


_OPENBSD_FLAG = re.compile(r"(-[nqsa]+)\s")
_NAMES = "SUN|MON|TUE|WED|THU|FRI|SAT|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC"
#: What is a field in some product, and no command.
_FIELD = re.compile(rf"(?=.*[\d*?]|.*[A-Z]{{3}})(?:[\d*?/,\-#~]|L|W|H|{_NAMES})+")
_YEAR = re.compile(r"(19|20)\d\d([-,/].*)?")
#: cron takes a step after `*` or a range only.
_LONE_STEP = re.compile(r"(?:^|,)(\d+)/(\d+)")


def _foreign(line: str) -> str:  # noqa: PLR0911 - one for each product that it may be of
    """Return what a line is that was not written for cron, and what to write; empty = it was."""
    parts = line.removeprefix("-").split()
    if line.startswith("@"):
        return _foreign_word(*[*parts, "", "", ""][:3])
    fields = [part for part, _ in zip(parts, takewhile(_FIELD.fullmatch, parts), strict=False)][:7]
    if "?" in fields:
        return f'Quartz? write a job with cron: "{" ".join(fields[:7])}"'
    if len(fields) > len(FIELDS) and _YEAR.fullmatch(fields[5]):
        return "a year? cron has none: write five fields, and give the job from and until"
    if len(fields) > len(FIELDS):
        return (
            f"{len(fields)} fields? cron has five: {' '.join(fields[1:6])} if the first is "
            f"seconds, {' '.join(fields[:5])} if the last is a year"
        )
    is_anacron = len(fields) == 2 and len(parts) > 3 and not _FIELD.fullmatch(parts[3])  # noqa: PLR2004 - a period, a delay, a name and a command
    if is_anacron and all(map(str.isdecimal, fields)):
        return "anacron? write five fields, such as 5 3 * * * for each day, instead of a period"
    for part in parts[: len(FIELDS)]:
        if len(fields) >= len(FIELDS) and (lone := _LONE_STEP.search(part)):
            return f"cron refuses {part}: write {lone[1]}-{_last(parts, part)}/{lone[2]}"
        if part.startswith("H") and len(parts) > len(FIELDS):
            return f"Jenkins? cron has no {part}: write a number, such as */15"
        if "~" in part and len(fields) >= len(FIELDS):
            return f"a random time? Write one of {part}, or give the job a jitter"
    return ""


def _last(parts: Sequence[str], part: str) -> int:
    """Return the last value of a field."""
    _, _, most, _ = FIELDS[parts.index(part)]
    return min(most, 6) if parts.index(part) == len(FIELDS) - 1 else most


def _foreign_word(word: str, second: str, third: str) -> str:
    """Return what a line is that begins with `@` and was not written for cron."""
    every = re.fullmatch(r"([0-9]+)([smh])", second)
    if word == "@every" and every:
        number, unit = int(every[1]), every[2]
        fits = number and (60 if unit == "m" else 24) % number == 0
        five = {"m": f"*/{number} * * * *", "h": f"0 */{number} * * *"}.get(unit) if fits else None
        return f"cron has no @every: write {five or f'a job with every: {second}'}"
    if word == "@every_minute":  # FreeBSD's
        return "cron has no @every_minute: write * * * * *"
    if word.startswith("@every") or word[1:].isdecimal():
        return f"cron has no {word}: write five fields, or a job with every: 5m"
    if word in SHORTCUTS and second.isdecimal() and third:
        return "anacron? write five fields, such as 5 3 1 * * for each month, instead of a period"
    if word not in SHORTCUTS and word.lower() in SHORTCUTS:
        return f"cron refuses {word}: write {word.lower()}"
    return ""


def _split(line: str) -> tuple[Sequence[str], str]:
    """Return the five fields of a line and its command.

    A `-` before them, as in SUSE's, keeps cron from logging the command.
    """
    line = line[1:] if re.match(r"-[^\s-]", line) else line
    if line.startswith("@"):
        word, command = [*line.split(None, 1), ""][:2]
        shortcut = SHORTCUTS.get(word)
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
    set_by_cron = {"SHELL": "/bin/sh"} | variables
    lines = [_OF_CRON]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in set_by_cron.items()]
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
    words = without_invisible(re.sub(r"[/\x00-\x1f\x7f-\x9f\s]+", " ", command)).strip()
    base = words[:_NAME_LENGTH].strip() or "command"
    name, number = base, 2
    while name in taken:
        name, number = f"{base} {number}", number + 1
    taken.add(name)
    return name


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


def _checked(spec: JobSpec, now_ms: int) -> JobSpec:
    """Return a job that is sound: without its jitter if that is too long."""
    for problem in problems(spec, now_ms=now_ms):
        if problem.code is Code.JITTER_TOO_LONG:
            return _checked(replace(spec, schedule_options=ScheduleOptions()), now_ms)
        raise problem
    return spec
