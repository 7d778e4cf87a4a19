"""swarmnode: train a language model together with strangers, by swarm sampling."""

__version__ = "0.1.0"
