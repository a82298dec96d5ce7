"""What all Python tests need of the process that runs them."""
import signal

# Whoever starts the tests in the background may have them ignore Ctrl-C, and so the programs that
# they start: these would then not end when a test asks them to.
signal.signal(signal.SIGINT, signal.default_int_handler)
