"""What can go wrong in an executor.

ExecutorError
├── StateFolderInUse    another process holds the state folder of this address
├── JournalFailed       the journal cannot be written now, most often a full disk
└── ScriptRefused       a script may not, or cannot, run here
"""


class ExecutorError(Exception):
    """Root of the package's errors."""


class StateFolderInUse(ExecutorError):
    """Another process holds the state folder of this address."""


class JournalFailed(ExecutorError):
    """The journal cannot be written now, most often a full disk; what was to be said is kept."""


class ScriptRefused(ExecutorError):
    """A script may not, or cannot, run here."""
