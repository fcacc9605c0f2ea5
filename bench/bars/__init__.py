"""One module per bar; each has `measure(*, quick)`."""
