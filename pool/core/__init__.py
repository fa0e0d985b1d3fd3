"""The pool's decisions as a value machine: `(event, now) -> actions`. No I/O, clock or randomness."""
