"""What is counted, and by whom it is told: the rooms have ports, these are the ones behind them."""
