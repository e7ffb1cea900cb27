"""Settings: one frozen object, validated once; and the folder of `warren up`."""
