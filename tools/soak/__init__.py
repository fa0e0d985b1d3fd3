"""Long runs: an evening of 200 sessions on one gateway (`make soak`), and its sudden deaths (`make crash`)."""
