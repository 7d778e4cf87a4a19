"""Reward models and rewards of other packages: what judges completions beside the verifier.

Torch is allowed here; the room knows models (policy) and channels (rewards), no round and no peer.
"""
