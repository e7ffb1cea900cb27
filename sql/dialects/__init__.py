"""Everything that differs between databases: one file each, behind the interface in `dialect`."""
