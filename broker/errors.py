"""What can go wrong between messages.

BrokerError
├── BrokerUnavailable     no broker answers, or it refuses us
├── TopologyError         a queue or exchange exists with other arguments
└── BadMessage            a message that must not be acted upon
    ├── Malformed         not decodable, of an unknown version
    │   └── Oversized     larger than any message of ours; not worth keeping
    ├── Forged            unsigned or wrongly signed, or signed for another place
    ├── Foreign           of another cluster
    └── Expired           past its `not after`
"""

from broker.messages import Message


class BrokerError(Exception):
    """Root of the package's errors."""


class BrokerUnavailable(BrokerError):
    """No broker answers, or it refuses us."""


class TopologyError(BrokerError):
    """A queue or exchange exists with other arguments."""


class BadMessage(BrokerError):
    """A message that must not be acted upon."""


class Malformed(BadMessage):
    """Not decodable, or of an unknown version."""


class Oversized(Malformed):
    """Larger than any message of ours; not worth keeping."""


class Forged(BadMessage):
    """Unsigned or wrongly signed, or signed for another place."""


class Foreign(BadMessage):
    """Of another cluster."""


class Expired(BadMessage):
    """Past its `not after`; `message` is what it says, rightly signed, so it can be answered."""

    def __init__(self, text: str, message: Message | None = None) -> None:
        super().__init__(text)
        self.message = message
