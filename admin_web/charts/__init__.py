"""Charts: data read and laid out as shapes, for templates to draw."""
