"""Decides what runs, where and when; the only place where a row becomes a message."""
