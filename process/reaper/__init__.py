"""What must outlive the gateway. Standard library only, and no import of ours beyond this folder.

The gateway imports these modules as `ostler.process.reaper.*`; the reaper process imports the same
files as a top-level `reaper` package, without site-packages, so that it stays small and survives a broken
environment.
"""
