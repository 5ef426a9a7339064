"""One limit, which only ends a hang: no machine is so busy that a test comes near."""

HANG_SECONDS = 800.0  # less than the timeout of pytest, which names no reason
