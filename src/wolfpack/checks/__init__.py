"""What is tried before a run: arguments, functions, atoms from files."""
