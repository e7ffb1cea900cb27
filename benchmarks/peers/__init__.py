"""Warren beside Celery, RQ, Dramatiq and APScheduler, in turn, with the same work.

The peers' programs run in an environment of their own (`build/peers`), with the versions of
`requirements.txt`; nothing of them is imported here.
"""
