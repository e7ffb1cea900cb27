"""Makes the transport from the settings."""

from warren.broker.transport import BrokerSettings, Transport
from warren.settings.settings import Settings


def connect_broker(settings: Settings) -> Transport:
    """Return a transport for the RabbitMQ of the settings; it is not connected yet."""
    # Imported here because `warren up` needs neither pika nor its 10 MB.
    from warren.broker.rabbitmq.transport import connect  # noqa: PLC0415

    urls = tuple(url.strip() for url in (settings.broker_url or "").split(","))
    return connect(BrokerSettings(urls=urls, quorum=settings.quorum))
