"""A server and workers in processes of their own, over Ray."""
