"""Forms, and the rules of their fields."""
