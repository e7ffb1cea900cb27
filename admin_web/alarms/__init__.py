"""Alarms: the page that lists them, and tests of targets from every form that has some."""
