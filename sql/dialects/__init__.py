"""What differs between databases: a class for each, behind the interface in `dialect`."""
