"""Handles arriving triggers, commands and questions."""
