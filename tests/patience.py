"""How long tests wait for an event that must come."""

# Only a program that hangs takes so long: a machine a hundred times slower than ours stays far
# below it. No test passes by waiting until the end.
PATIENCE_S = 1800
