"""The timeline: past runs as bars and future due times as marks along one axis."""
