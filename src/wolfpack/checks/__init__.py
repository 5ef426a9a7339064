"""What is checked before a run: arguments, functions, atoms from files."""
