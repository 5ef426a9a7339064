"""Files, and what they hold, met with distrust."""
