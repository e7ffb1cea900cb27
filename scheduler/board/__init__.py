"""How jobs are doing, by their due times: folded from runs as they end, and rebuilt from rows."""
