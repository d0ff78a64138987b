"""HTTP stack shared by `myxtts serve` and `myxtts review`."""
