"""One run: when to look, certify, report and stop."""
