"""Alerts people to failures and absences, from the row at a run's end to mail and webhook."""
