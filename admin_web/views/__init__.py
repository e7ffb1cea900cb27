"""Data for pages, computed before a template renders it."""
