"""The version of the tables: brought up to date, checked at the start, and the rights they need."""
