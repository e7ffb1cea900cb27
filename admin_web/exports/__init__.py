"""Lists as CSV and JSON files: what the page shows with the same filter, up to a limit."""
