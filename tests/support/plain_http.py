"""The clients of the tests speak plain HTTP to this machine. Each would load the world's authorities for that, 15 ms of
work for every test with a client, so they are given a context that knows none.
"""

import ssl

NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
