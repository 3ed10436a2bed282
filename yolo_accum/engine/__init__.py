"""The training engine: a plan of integers, loss totals, one update, the loop, the trainer that wires them."""
