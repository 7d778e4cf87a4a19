"""Generation and training apart, overlapped: `policy.mode` = `split` (docs/split.md).

What waits in between (ready.py), who may begin what (throttle.py), which number weights have
(versions.py) and how fast each side is (pace.py) are decided by pure code; generators.py keeps the
generator processes alive, and loops.py has the two loops.
"""
