"""Who decides what to ask: the weights with which a node draws its tasks."""
