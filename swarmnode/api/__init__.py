"""What a running node tells to programs of the same user on the same machine."""
