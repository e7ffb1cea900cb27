"""Reads files written by mysqldump and mariadb-dump, without a server."""
