"""The errors of the executor.

ExecutorError
├── StateFolderInUse    another process holds the state folder of this address
├── NewerJournal        a newer version wrote the journal
├── JournalFailed       the journal cannot be written at present, mostly because the disk is full
├── ScriptRefused       a script may not, or cannot, run here
└── UserUnusable        jobs cannot run as the configured user
"""

from warren.broker.reasons import Reason


class ExecutorError(Exception):
    """Root of the package's errors."""


class StateFolderInUse(ExecutorError):
    """Another process holds the state folder of this address."""


class JournalFailed(ExecutorError):
    """The journal cannot be written at present; what was appended is kept for the next try."""


class NewerJournal(ExecutorError):
    """A newer version of Warren wrote the journal, and this one might misread it."""


class ScriptRefused(ExecutorError):
    """A script may not, or cannot, run here."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(str(reason))


class UserUnusable(ExecutorError):
    """Jobs cannot run as the configured user."""
