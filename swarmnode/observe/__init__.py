"""What a node tells of itself: the names and meanings of its figures."""
