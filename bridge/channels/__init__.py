"""Ways into a Binding other than the unix socket, one module each."""
