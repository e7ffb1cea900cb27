"""Imports apps, jobs, users and finished runs from other schedulers; remembers their source ids."""
