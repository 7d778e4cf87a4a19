"""A trainer's weights on their way to the processes that sample with them.

Three ways behind one small interface (channel.py): shared memory on one machine, a folder, which
works across anything, and a broadcast by torch.distributed. Knows tensors, their names and version
numbers; knows no model, round or task, and who may sample when is not decided here.
"""
