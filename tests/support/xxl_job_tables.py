"""Databases with the columns of XXL-JOB's versions, written by ourselves, and rows for them."""

from collections.abc import Mapping
from typing import Any

import pymysql
from sqlalchemy.engine import make_url

from tests.support.mariadb import PrivateMariaDB

VERSIONS = ("2.2.0", "2.3.1", "2.5.0", "3.2.0", "3.4.0", "3.5.0")

_ID = "int NOT NULL AUTO_INCREMENT PRIMARY KEY"
_BIG_ID = "bigint NOT NULL AUTO_INCREMENT PRIMARY KEY"
_NUMBER = "int NOT NULL DEFAULT 0"
_TEXT = "varchar(255) DEFAULT NULL"
_TIME = "datetime DEFAULT NULL"


def columns(version: str) -> dict[str, dict[str, str]]:
    """Return the columns of each table, with their types, in a version."""
    at_least = VERSIONS.index(version)

    def since(other: str) -> bool:
        return at_least >= VERSIONS.index(other)

    name = "name" if since("3.5.0") else "title"
    group = {
        "id": _ID,
        "app_name": "varchar(64) NOT NULL",
        name: "varchar(64) NOT NULL" if since("3.4.0") else "varchar(12) NOT NULL",
        "address_type": "tinyint NOT NULL DEFAULT 0",
        "address_list": "text",
        **({"access_token": _TEXT} if since("3.5.0") else {}),
        **({"update_time": _TIME} if since("2.3.1") else {}),
    }
    when = (
        {
            "schedule_type": "varchar(50) NOT NULL DEFAULT 'NONE'",
            "schedule_conf": "varchar(128) DEFAULT NULL",
            "misfire_strategy": "varchar(50) NOT NULL DEFAULT 'DO_NOTHING'",
        }
        if since("2.3.1")
        else {"job_cron": "varchar(128) NOT NULL"}
    )
    info = {
        "id": _ID,
        "job_group": "int NOT NULL",
        ("name" if since("3.5.0") else "job_desc"): "varchar(255) NOT NULL",
        "add_time": _TIME,
        "update_time": _TIME,
        "author": "varchar(64) DEFAULT NULL",
        "alarm_email": _TEXT,
        **when,
        "executor_route_strategy": "varchar(50) DEFAULT NULL",
        "executor_handler": _TEXT,
        "executor_param": "text" if since("3.4.0") else "varchar(512) DEFAULT NULL",
        "executor_block_strategy": "varchar(50) DEFAULT NULL",
        "executor_timeout": _NUMBER,
        "executor_fail_retry_count": _NUMBER,
        "glue_type": "varchar(50) NOT NULL",
        "glue_source": "mediumtext",
        "glue_remark": "varchar(128) DEFAULT NULL",
        "glue_updatetime": _TIME,
        "child_jobid": _TEXT,
        "trigger_status": "tinyint NOT NULL DEFAULT 0",
        "trigger_last_time": "bigint NOT NULL DEFAULT 0",
        "trigger_next_time": "bigint NOT NULL DEFAULT 0",
    }
    log = {
        "id": _BIG_ID,
        "job_group": "int NOT NULL",
        "job_id": "int NOT NULL",
        "executor_address": _TEXT,
        "executor_handler": _TEXT,
        "executor_param": "text" if since("3.4.0") else "varchar(512) DEFAULT NULL",
        "executor_sharding_param": "varchar(20) DEFAULT NULL",
        "executor_fail_retry_count": _NUMBER,
        "trigger_time": _TIME,
        "trigger_code": "int NOT NULL",
        "trigger_msg": "text",
        "handle_time": _TIME,
        "handle_code": "int NOT NULL",
        "handle_msg": "text",
        "alarm_status": "tinyint NOT NULL DEFAULT 0",
    }
    return {
        "xxl_job_group": group,
        "xxl_job_info": info,
        "xxl_job_logglue": {
            "id": _ID,
            "job_id": "int NOT NULL",
            "glue_type": "varchar(50) DEFAULT NULL",
            "glue_source": "mediumtext",
            "glue_remark": "varchar(128) NOT NULL",
            "add_time": _TIME,
            "update_time": _TIME,
        },
        "xxl_job_log": log,
        "xxl_job_log_report": {
            "id": _ID,
            "trigger_day": _TIME,
            "running_count": _NUMBER,
            "suc_count": _NUMBER,
            "fail_count": _NUMBER,
            **({"update_time": _TIME} if since("2.3.1") else {}),
        },
        "xxl_job_user": {
            "id": _ID,
            "username": "varchar(50) NOT NULL",
            "password": "varchar(100) NOT NULL",
            **({"token": "varchar(100) DEFAULT NULL"} if since("3.2.0") else {}),
            "role": "tinyint NOT NULL",
            "permission": _TEXT,
        },
        "xxl_job_registry": {
            "id": _BIG_ID if since("3.4.0") else _ID,
            "registry_group": "varchar(50) NOT NULL",
            "registry_key": "varchar(255) NOT NULL",
            "registry_value": "varchar(255) NOT NULL",
            "update_time": _TIME,
        },
        "xxl_job_lock": {"lock_name": "varchar(50) NOT NULL PRIMARY KEY"},
    }


class XxlJobDatabase:
    """A database with the tables of one version of XXL-JOB; a test creates and fills it."""

    def __init__(self, server: PrivateMariaDB, version: str = "3.4.0") -> None:
        self.version = version
        self._server = server
        url = make_url(server.create_database())
        self.name = str(url.database)
        self.password = str(url.password)
        #: For the command: without a password.
        self.url = f"mysql+pymysql://{url.username}@{url.host}:{url.port}/{self.name}"
        self._columns = columns(version)
        self.connection = pymysql.connect(
            host=url.host or "",
            port=url.port or 0,
            user=url.username,
            password=self.password,
            database=self.name,
            charset="utf8mb4",
            autocommit=True,
            ssl_disabled=True,
        )
        for table, described in self._columns.items():
            parts = ", ".join(f"`{name}` {kind}" for name, kind in described.items())
            self.execute(f"CREATE TABLE `{table}` ({parts}) ENGINE=InnoDB CHARSET=utf8mb4")

    def close(self) -> None:
        self.connection.close()
        self._server.drop_database(self.name)

    def execute(self, statement: str, values: Any = ()) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall())

    def add(self, table: str, **values: Any) -> int:
        """Insert a row, by 3.4's column names; columns that this version lacks are left out."""
        there = self._columns[f"xxl_job_{table}"]
        found = {self._known_as(name, there): value for name, value in values.items()}
        found = {name: value for name, value in found.items() if name in there}
        return self.insert(f"xxl_job_{table}", found)

    def insert(self, table: str, values: Mapping[str, Any]) -> int:
        names = ", ".join(f"`{name}`" for name in values)
        marks = ", ".join(["%s"] * len(values))
        with self.connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO `{table}` ({names}) VALUES ({marks})", [*values.values()])
            return int(cursor.lastrowid)

    def group(self, app_name: str = "shop-jobs", **values: Any) -> int:
        return self.add("group", **{"app_name": app_name, "title": "Shop"} | values)

    def job(self, name: str = "nightly", **values: Any) -> int:
        given = {
            "job_group": 1,
            "job_desc": name,
            "schedule_type": "CRON",
            "schedule_conf": "0 0 2 * * ?",
            "executor_route_strategy": "FIRST",
            "executor_handler": "nightlyHandler",
            "executor_block_strategy": "SERIAL_EXECUTION",
            "glue_type": "BEAN",
            "author": "olga",
        } | values
        given.setdefault("job_cron", given["schedule_conf"])
        return self.add("info", **given)

    def _known_as(self, name: str, there: Mapping[str, str]) -> str:
        if name in ("title", "job_desc") and name not in there:
            return "name"
        return name
