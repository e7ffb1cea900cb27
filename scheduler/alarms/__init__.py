"""Tells people of failures and absences, from a row of the run's end to mail and webhook."""
