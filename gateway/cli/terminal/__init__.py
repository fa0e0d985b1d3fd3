"""`ostler chat`: a gateway's chat face in a terminal. A client like any other, which can bring a gateway along."""
