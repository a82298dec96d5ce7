"""Settings of the process that runs the Python tests."""
import signal

# A shell that starts the tests in the background may make them ignore SIGINT. The programs that
# they start would inherit that, and would not end when a test sends the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
