"""Scripts before they run: which may run here, and their sources as files for the interpreters.

A run's source is a file of its own that is there for as long as the run is, so no run can change
what another one executes, and nothing is left to be cleaned but after a crash.
"""

import contextlib
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from broker.messages import ScriptLanguage, Trigger
from executor.errors import ScriptRefused

#: The setting that says which languages an executor runs.
SETTING = "WARREN_GLUE"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A program found on the PATH, and how its files are called."""

    program: str
    suffix: str


INTERPRETERS = {
    ScriptLanguage.SHELL: Interpreter("bash", ".sh"),
    ScriptLanguage.PYTHON: Interpreter("python3", ".py"),
    ScriptLanguage.NODEJS: Interpreter("node", ".js"),
    ScriptLanguage.PHP: Interpreter("php", ".php"),
    ScriptLanguage.POWERSHELL: Interpreter("pwsh", ".ps1"),
    ScriptLanguage.GROOVY: Interpreter("groovy", ".groovy"),
}


class Scripts:
    """The scripts of one executor; `folder` None or no `languages`: it runs none."""

    def __init__(self, folder: Path | None, languages: Collection[str]) -> None:
        self._folder = None if folder is None else folder.absolute()
        self._languages = frozenset(languages) if folder is not None else frozenset()

    def clear(self) -> None:
        """Delete what an executor that crashed has left in the folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def prepare(self, trigger: Trigger) -> tuple[str, ...]:
        """Write a run's source into a file and return the command that runs it.

        Raises:
            ScriptRefused: it may not, or cannot, run here.

        """
        interpreter = self._interpreter(trigger.script_language)
        if "\0" in trigger.param:
            raise ScriptRefused("its param holds a NUL, which no program can be given")
        try:
            path = self._write(trigger, interpreter.suffix)
        except OSError as error:
            raise ScriptRefused(f"cannot write its script: {error.strerror}") from error
        shard = (str(trigger.shard_index), str(trigger.shard_total))
        return (interpreter.program, path, trigger.param, *shard)

    def discard(self, command: tuple[str, ...]) -> None:
        """Delete the source of a run that is over."""
        with contextlib.suppress(OSError):
            Path(command[1]).unlink()

    def _interpreter(self, language: str) -> Interpreter:
        if language not in list(ScriptLanguage):
            raise ScriptRefused(f"unknown script language {language!r}")
        if not self._languages:
            raise ScriptRefused(f"scripts are not allowed here: {SETTING} is off")
        if language not in self._languages:
            allowed = ",".join(sorted(self._languages))
            raise ScriptRefused(f"{language} scripts are not allowed here: {SETTING} is {allowed}")
        return INTERPRETERS[ScriptLanguage(language)]

    def _write(self, trigger: Trigger, suffix: str) -> str:
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Groovy makes a class's name of it: a letter first, and no hyphen.
        path = self._folder / f"job{trigger.job_id}_run{trigger.run_id}{suffix}"
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(trigger.script_source.encode())
        return str(path)
