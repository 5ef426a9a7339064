"""How loops are compiled for a problem, and what they are made of."""
