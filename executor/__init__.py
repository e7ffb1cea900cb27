"""Runs jobs in processes of their own. It never touches the database."""
