"""Settings: one frozen object, validated once, and the folder where `warren up` keeps its own."""
