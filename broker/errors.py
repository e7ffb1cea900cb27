"""The errors of the package.

BrokerError
├── BrokerUnavailable     no broker answers, or it refuses the connection
│   └── QueueUnavailable  one that holds a queue does not, while others do
├── TopologyError         a queue or exchange exists with other arguments
└── BadMessage            a message that must be ignored
    ├── Malformed         not decodable, or of an unknown version
    │   └── Oversized     larger than any message of ours; not worth keeping
    ├── Forged            unsigned, wrongly signed, or signed for another destination
    ├── Foreign           of another cluster
    └── Expired           past its time
"""

from warren.broker.messages import Message


class BrokerError(Exception):
    """Root of the package's errors."""


class BrokerUnavailable(BrokerError):
    """No broker answers, or it refuses the connection."""


class QueueUnavailable(BrokerUnavailable):
    """The cluster node that holds a queue is down; its messages come back with it."""


class TopologyError(BrokerError):
    """A queue or exchange exists with other arguments."""


class BadMessage(BrokerError):
    """A message that must be ignored."""


class Malformed(BadMessage):
    """Not decodable, or of an unknown version."""


class Oversized(Malformed):
    """Larger than any message of ours; not worth keeping."""


class Forged(BadMessage):
    """Unsigned, wrongly signed, or signed for another destination."""


class Foreign(BadMessage):
    """Of another cluster."""


class Expired(BadMessage):
    """Past its time; `message` is its verified content, so it can be answered."""

    def __init__(self, text: str, message: Message | None = None) -> None:
        super().__init__(text)
        self.message = message
