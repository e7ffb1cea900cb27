"""The base class of all tables."""

from sqlalchemy import MetaData
from sqlalchemy.orm import DeclarativeBase


class Model(DeclarativeBase):
    """The base class of all tables."""

    metadata = MetaData()
