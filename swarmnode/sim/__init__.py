"""A whole swarm on one machine: many nodes in virtual time, studies over arms, and their report."""
