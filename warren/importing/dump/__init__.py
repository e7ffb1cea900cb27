"""Reads what mysqldump and mariadb-dump write, without a server."""
