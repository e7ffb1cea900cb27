"""The pages of alarms and incidents, and tests of targets from every form that has some."""
