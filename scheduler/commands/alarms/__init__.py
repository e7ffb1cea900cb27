"""Commands on alarms: tests of targets, and what is done about alarms that reached nobody."""
