"""The executor's messages: inbox, outbox, heartbeats, and whether the broker answers."""
