"""`python -m swarmnode`: the same as the command `swarmnode`."""

from swarmnode.cli import main

main()
