"""Everything that touches the database; imports no other package of Warren's."""
