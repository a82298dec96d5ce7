"""How long tests wait for an event that must come."""

# Only a program that hangs takes so long: a machine twenty times slower than ours stays below it.
# All other tests wait with one that fails so. No test passes by waiting until the end.
PATIENCE_S = 300
