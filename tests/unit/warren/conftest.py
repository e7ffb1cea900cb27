"""What every test of the front door leaves as it was."""

from tests.support.restored_logs import restored_logs

__all__ = ["restored_logs"]
