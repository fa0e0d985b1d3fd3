"""Agent protocols to one `TurnEvent` union, one module per protocol."""
