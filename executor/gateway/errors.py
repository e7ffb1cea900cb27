"""What can go wrong between the gateway and the executors that register with it.

ExecutorError
├── BadRequest         a request is malformed or not allowed
├── NotRecorded        a result is not in the journal, so the executor must repeat it
├── AddressRefused     a registered address is malformed or not on the allow-list
└── CallFailed         a remote executor did not answer a call
    ├── NotSent        and it certainly did not arrive
    └── Disconnected   the connection was closed before an answer came
"""

from warren.executor.errors import ExecutorError


class BadRequest(ExecutorError):
    """A request is malformed or not allowed."""


class NotRecorded(ExecutorError):
    """A result is not in the journal, so the executor must repeat it."""


class AddressRefused(ExecutorError):
    """A registered address is malformed or not on the allow-list."""


class CallFailed(ExecutorError):
    """A remote executor did not answer a call, which may have arrived."""


class NotSent(CallFailed):
    """A call certainly did not reach the remote executor."""


class Disconnected(CallFailed):
    """The connection was closed before an answer came, so the call may have arrived."""
