"""The timeline: what jobs did and what they will do, as bars and marks along one axis."""
