"""`ostler chat`: a terminal client of the sessions API. Uses a running gateway, or starts one in its own process."""
