"""Lists as files, in CSV and JSON: what the page shows with the same filter, up to a bound."""
