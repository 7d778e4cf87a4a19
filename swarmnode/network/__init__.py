"""How nodes find each other's groups: the transport interface and its implementations."""
