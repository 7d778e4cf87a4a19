"""The schedulers that are networks themselves, and what they need of the model: the part of the
room that knows torch. It lives in the policy host; the daemon's part of the room may not know it.
"""
