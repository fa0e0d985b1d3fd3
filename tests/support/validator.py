"""Sits in the transport of a client's HTTP, so that every body and every event is judged that a test lets pass."""

from collections.abc import AsyncIterator

import httpx2  # the HTTP library of the clients

from tests.support.openai_oracle import judge
from tests.support.plain_http import NO_AUTHORITIES


class Heard(httpx2.AsyncByteStream):
    """A body on its way to the client, and a copy of it."""

    def __init__(self, inner: httpx2.AsyncByteStream, content_type: str, validator: "ValidatingTransport") -> None:
        self._inner = inner
        self._kind = content_type
        self._validator = validator

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = []
        async for piece in self._inner:
            pieces.append(piece)
            yield piece
        self._validator.judged += judge(self._kind, b"".join(pieces))

    async def aclose(self) -> None:
        await self._inner.aclose()


class ValidatingTransport(httpx2.AsyncBaseTransport):
    """HTTP as it is, and a verdict on each body that was read to its end."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport(verify=NO_AUTHORITIES)
        self.judged = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._inner.handle_async_request(request)
        assert isinstance(answer.stream, httpx2.AsyncByteStream)
        answer.stream = Heard(answer.stream, answer.headers.get("content-type", ""), self)
        return answer

    async def aclose(self) -> None:
        await self._inner.aclose()
