"""Compares Warren with Celery, RQ, Dramatiq and APScheduler, in turn and with the same work.

The peers' programs run in their own environment (`build/peers`), with the versions in
`requirements.txt`; nothing of them is imported here.
"""
