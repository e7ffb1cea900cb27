"""Alarms: kept from the end of a run until everybody concerned has been told."""
