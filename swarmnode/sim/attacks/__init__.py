"""The attack lab: what hostile nodes do to a simulated swarm, and what came of it.

`forging` makes what an attacker publishes, `attacker` is the node that publishes it, `besetting`
what attackers do to the connections of others, `measures` what honest nodes show of it, `words`
tells it. docs/attacks.md lists the attacks. Nothing here is reached outside a simulation.
"""
