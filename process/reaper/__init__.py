"""The reaper: the part that must outlive the gateway.

Rules: standard library only, and no import of ours from outside this folder. The gateway imports these modules as
`ostler.process.reaper.*`; the reaper process imports the same files as a top-level package `reaper`, without
site-packages, so that it stays small and survives a broken environment.
"""
