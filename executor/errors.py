"""What can go wrong in an executor.

ExecutorError
├── StateFolderInUse    another process holds the state folder of this address
├── AddressRefused      another living executor holds the address
└── JournalFailed       the journal cannot be written now, most often a full disk
"""


class ExecutorError(Exception):
    """Root of the package's errors."""


class StateFolderInUse(ExecutorError):
    """Another process holds the state folder of this address."""


class AddressRefused(ExecutorError):
    """Another living executor holds the address."""


class JournalFailed(ExecutorError):
    """The journal cannot be written now, most often a full disk; what was to be said is kept."""
