"""Language modelling over text domains, under any scheduler: corpora, training, report.

`run.py` wires it. Knows no node, no network and no tasks.
"""
