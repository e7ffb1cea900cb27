"""Messages and how they travel. A leaf: it imports no other package of Warren's."""
