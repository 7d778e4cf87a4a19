"""An example of a package for swarmnode: a task, a filter and a reward."""
