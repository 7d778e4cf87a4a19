"""Language models as policies: text in, sampled completions out, and the forward that trains them.

Knows models and tokenizers; knows nothing of tasks, rewards, rounds or the network.
"""
