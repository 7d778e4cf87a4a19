"""What a node takes from others: admission, the pool of scored groups, filters, the I/J mix."""
