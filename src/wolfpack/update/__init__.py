"""One visit to a block, each part written once."""
