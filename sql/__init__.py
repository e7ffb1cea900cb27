"""Everything that touches the database. A leaf: it imports no other package of Warren's."""
