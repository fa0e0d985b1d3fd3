"""What operators use: status, admin verbs, metrics, readiness checks, the log, and the doctor.

Imports `http` and the floors below it; the server and the CLI import it. Only operators (`admin = true`, or the admin
socket) see what it shows; `/readyz`, which answers without a key, gets texts without paths.
"""
