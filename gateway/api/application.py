"""The routes, and the one place where an error of ours becomes an HTTP answer."""

import logging
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from ostler.gateway.api.chat import Chat
from ostler.gateway.api.conversations import Conversations
from ostler.gateway.api.errors import ApiError, on_http_exception, reply, translated
from ostler.gateway.api.health import Health
from ostler.gateway.api.models import ModelList
from ostler.gateway.api.responses import Responses
from ostler.gateway.errors import GatewayError

log = logging.getLogger(__name__)
Endpoint = Callable[[Request], Awaitable[Response]]


def application(
    responses: Responses, chat: Chat, conversations: Conversations, models: ModelList, health: Health
) -> Starlette:
    """All routes of the gateway."""
    table: list[tuple[str, str, Endpoint]] = [
        ("GET", "/healthz", health.alive),
        ("GET", "/readyz", health.ready),
        ("GET", "/v1/models", models.all),
        ("GET", "/v1/models/{name:path}", models.one),
        ("POST", "/v1/chat/completions", chat.create),
        ("POST", "/v1/responses", responses.create),
        ("GET", "/v1/responses/{id}", responses.retrieve),
        ("DELETE", "/v1/responses/{id}", responses.delete),
        ("POST", "/v1/responses/{id}/cancel", responses.cancel),
        ("GET", "/v1/responses/{id}/input_items", responses.input_items),
        ("POST", "/v1/conversations", conversations.create),
        ("GET", "/v1/conversations/{slug:path}/items/{item}", conversations.item),
        ("GET", "/v1/conversations/{slug:path}/items", conversations.items),
        ("POST", "/v1/conversations/{slug:path}/items", conversations.add_items),
        ("GET", "/v1/conversations/{slug:path}", conversations.retrieve),
        ("POST", "/v1/conversations/{slug:path}", conversations.update),
        ("DELETE", "/v1/conversations/{slug:path}", conversations.delete),
    ]
    routes = [Route(path, guarded(endpoint), methods=[method]) for method, path, endpoint in table]
    return Starlette(routes=routes, exception_handlers={HTTPException: on_http_exception})


def guarded(endpoint: Endpoint) -> Endpoint:
    """The endpoint, with every error an envelope. What is not ours is logged whole and answered without a detail."""

    async def guard(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ClientDisconnect:
            return Response(status_code=499)
        except HTTPException:
            raise
        except ApiError as error:
            return reply(error)
        except GatewayError as error:
            log.warning("%s %s: %s", request.method, request.url.path, error)
            return reply(translated(error))
        except Exception as error:
            log.exception("%s %s failed", request.method, request.url.path)
            return reply(translated(error))

    return guard
