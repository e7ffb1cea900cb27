"""Runs that got stuck: unconfirmed, silent, left by a dead executor, or to be killed."""
