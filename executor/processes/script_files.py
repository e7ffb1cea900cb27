"""Decides which scripts may run here, and writes their sources to files for the interpreters.

Each run has its own file for as long as it lasts, so no run can change what another one executes,
and only a crash leaves files behind.
"""

import contextlib
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from warren.broker.messages import ScriptLanguage, Trigger
from warren.broker.reasons import Why
from warren.executor.errors import ScriptRefused
from warren.executor.fork_server.confinement import Confinement

#: The setting that says which languages an executor runs.
SETTING = "WARREN_GLUE"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A program to be found on the PATH, and the suffix of its files."""

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
    """The scripts of one executor; without a `folder` or `languages` it runs none."""

    def __init__(
        self,
        folder: Path | None,
        languages: Collection[str],
        confinement: Confinement | None = None,
    ) -> None:
        self._confinement = confinement or Confinement()
        self._folder = None if folder is None else folder.absolute()
        self._languages = frozenset(languages) if folder is not None else frozenset()

    def languages(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the languages that may and can run here, and those whose interpreter is missing.

        Both are sorted. What is installed later is found at the next start.
        """
        allowed = sorted(self._languages & set(ScriptLanguage))
        have = {
            language
            for language in allowed
            if shutil.which(INTERPRETERS[ScriptLanguage(language)].program)
        }
        return tuple(language for language in allowed if language in have), tuple(
            language for language in allowed if language not in have
        )

    def clear(self) -> None:
        """Delete what a crashed executor has left in the folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def prepare(self, trigger: Trigger) -> tuple[str, ...]:
        """Write a run's source to a file and return the command that runs it.

        Raises:
            ScriptRefused: it may not, or cannot, run here.

        """
        interpreter = self._interpreter(trigger.script_language)
        if "\0" in trigger.param:
            raise ScriptRefused(Why.PARAM_HOLDS_NUL())
        try:
            path = self._write(trigger, interpreter.suffix)
        except OSError as error:
            raise ScriptRefused(Why.SCRIPT_NOT_WRITTEN(fault=str(error.strerror))) from error
        shard = (str(trigger.shard_index), str(trigger.shard_total))
        return (interpreter.program, path, trigger.param, *shard)

    def discard(self, command: tuple[str, ...]) -> None:
        """Delete the source of a finished run."""
        with contextlib.suppress(OSError):
            Path(command[1]).unlink()

    def _interpreter(self, language: str) -> Interpreter:
        if language not in list(ScriptLanguage):
            raise ScriptRefused(Why.UNKNOWN_LANGUAGE(language=language))
        if not self._languages:
            raise ScriptRefused(Why.SCRIPTS_OFF(setting=SETTING))
        if language not in self._languages:
            allowed = ",".join(sorted(self._languages))
            raise ScriptRefused(Why.LANGUAGE_OFF(language=language, setting=SETTING, value=allowed))
        return INTERPRETERS[ScriptLanguage(language)]

    def _write(self, trigger: Trigger, suffix: str) -> str:
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Groovy turns it into a class name: it must begin with a letter and contain no hyphen.
        path = self._folder / f"job{trigger.job_id}_run{trigger.run_id}{suffix}"
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(trigger.script_source.encode())
        self._confinement.allow_read(path)
        return str(path)
