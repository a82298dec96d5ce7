"""How long tests wait for what must come."""

# Only a program that hangs takes so long: a machine a hundred times slower than ours is far below
# it. No test passes by waiting it out.
PATIENCE_S = 1800
