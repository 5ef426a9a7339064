"""How x_(i) is kept: as weighted atoms, or as a vector."""
