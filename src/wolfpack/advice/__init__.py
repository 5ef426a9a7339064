"""How many blocks at once pay: a short pilot run, and what it measured."""

from wolfpack.advice.batch_size import Advice, suggest_batch_size

__all__ = ["Advice", "suggest_batch_size"]
