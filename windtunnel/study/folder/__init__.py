"""A study on disk: what its files must hold, how they are written and read, and what follows from them."""
