"""Threads that share v."""
