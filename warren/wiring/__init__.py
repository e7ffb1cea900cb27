"""Builds each process from the settings."""
