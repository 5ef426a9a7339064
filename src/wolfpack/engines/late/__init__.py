"""Updates that come late: by drawn delays, or on a simulated clock."""
