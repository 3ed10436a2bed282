"""yolo-accum: a detector trainer with gradient accumulation at its centre."""

__version__ = "0.1.0"
