"""Who decides what is learned next: the weights with which domains are drawn.

A domain is a task in the node, and a corpus in pre-training; every scheduler serves both through
the one interface in `scheduler.py`. The room is pure: it knows no node, no files and no network.
"""
