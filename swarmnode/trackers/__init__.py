"""Trackers: what others draw of a node's rounds. JSON lines always, TensorBoard and such by choice.

Each tracker's library lives in a process of its own, so that its imports, threads, hooks and faults
are never the daemon's; what it can't take is lost and told, and no round waits.
"""
