"""What all tables have in common."""

from sqlalchemy import MetaData
from sqlalchemy.orm import DeclarativeBase


class Model(DeclarativeBase):
    """Root of all tables."""

    metadata = MetaData()
