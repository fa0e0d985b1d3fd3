"""The table of routes, and the one place where an error becomes an HTTP answer."""

import logging
from collections.abc import Sequence
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.convertors import register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from ostler.gateway.http.body import ResponseBody
from ostler.gateway.http.chat import ChatCompletions
from ostler.gateway.http.chat_body import ChatBody
from ostler.gateway.http.conversations import Change, ConversationRoutes, NewConversation, NewItems
from ostler.gateway.http.errors import on_http_exception, reply, translated
from ostler.gateway.http.health import HealthRoutes
from ostler.gateway.http.models import ModelList
from ostler.gateway.http.openapi import Documents
from ostler.gateway.http.responses import ResponseRoutes
from ostler.gateway.http.routes import AnyText, Endpoint, RouteSpec
from ostler.gateway.http.sessions import NewMessageBody, SessionRoutes
from ostler.gateway.model.api_error import ApiError
from ostler.gateway.model.errors import GatewayError

log = logging.getLogger(__name__)
PAGED = ("limit", "order", "after")
INTERNAL = 500
SLUG = "/v1/conversations/{slug:path}"
KEY = "/v1/sessions/{key:any}"


def table(
    responses: ResponseRoutes,
    chat: ChatCompletions,
    *,
    conversations: ConversationRoutes,
    sessions: SessionRoutes,
    models: ModelList,
    health: HealthRoutes,
) -> list[RouteSpec]:
    """Return every route of the API, for serving and for its documentation."""
    one = "/v1/responses/{id}"
    return [
        RouteSpec("POST", "/v1/responses", responses.create, "Ask an agent", ResponseBody),
        RouteSpec(
            "GET",
            one,
            responses.retrieve,
            "Read a response, or the rest of its stream",
            query=("stream", "starting_after"),
        ),
        RouteSpec("DELETE", one, responses.delete, "Delete a response, or erase what only it led to", query=("erase",)),
        RouteSpec("POST", f"{one}/cancel", responses.cancel, "Stop a response that is being made"),
        RouteSpec("GET", f"{one}/input_items", responses.input_items, "What a response was made from", query=PAGED),
        RouteSpec(
            "POST", "/v1/chat/completions", chat.create, "Ask an agent, bringing the whole conversation along", ChatBody
        ),
        RouteSpec("POST", "/v1/conversations", conversations.create, "Make a conversation", NewConversation),
        RouteSpec("GET", f"{SLUG}/items/{{item}}", conversations.item, "Read one item of a conversation"),
        RouteSpec("GET", f"{SLUG}/items", conversations.items, "What was said in a conversation", query=PAGED),
        RouteSpec("POST", f"{SLUG}/items", conversations.add_items, "Add items to a conversation", NewItems),
        RouteSpec("GET", SLUG, conversations.retrieve, "Read a conversation"),
        RouteSpec("POST", SLUG, conversations.update, "Change the metadata of a conversation", Change),
        RouteSpec("DELETE", SLUG, conversations.delete, "Forget a conversation's name, or erase it", query=("erase",)),
        RouteSpec("POST", f"{KEY}/messages", sessions.say, "Say something, or give a slash command", NewMessageBody),
        RouteSpec(
            "GET",
            f"{KEY}/messages",
            sessions.messages,
            "What was said in a session; with stream=true the answer that is being given",
            query=(*PAGED, "stream"),
        ),
        RouteSpec(
            "GET",
            "/v1/sessions",
            sessions.all,
            "Sessions, the last active first; with q what was said in them",
            query=("limit", "offset", "platform", "chat", "live", "q"),
        ),
        RouteSpec("GET", KEY, sessions.one, "The session that a key leads to"),
        RouteSpec("GET", "/v1/models", models.all, "The models this key may use"),
        RouteSpec("GET", "/v1/models/{name:path}", models.one, "One model"),
        RouteSpec("GET", "/healthz", health.alive, "Alive", open=True),
        RouteSpec("GET", "/readyz", health.ready, "Able to start agents", open=True),
    ]


class EncodedRoute(Route):
    """Matches the path as it was sent, before it is decoded: `x%2Fcancel` is a name with a slash in it, while a bare
    slash begins the next part of the route."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw = scope.get("raw_path")
        if scope["type"] != "http" or not raw:
            return super().matches(scope)
        match, found = super().matches({**scope, "path": raw.decode("latin-1")})
        if match is not Match.NONE:
            names = found.get("path_params", {})
            found["path_params"] = {name: unquote(value) for name, value in names.items()}
        return match, found


def application(rows: Sequence[RouteSpec], version: str) -> Starlette:
    """Return the ASGI application: the routes, and their documents."""
    register_url_convertor("any", AnyText())
    documents = Documents(rows, version)
    routes: list[Route] = [EncodedRoute(row.path, guarded(row.endpoint), methods=[row.method]) for row in rows]
    routes += [Route("/openapi.json", documents.openapi), Route("/docs", documents.docs)]
    served = Starlette(routes=routes, exception_handlers={HTTPException: on_http_exception})
    served.router.redirect_slashes = False  # An unknown path is a 404 with a reason, not a bare redirect.
    return served


def guarded(endpoint: Endpoint) -> Endpoint:
    """Wrap the endpoint so that every error is answered with an envelope. An error that is not ours is logged with its
    traceback and answered without details."""

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
            answer = translated(error)
            # Errors of clients are told to the client only: bad requests must not fill the log.
            level = logging.WARNING if answer.status >= INTERNAL else logging.DEBUG
            log.log(level, "%s %r: %s", request.method, request.url.path, error)
            return reply(answer)
        except Exception as error:
            log.exception("%s %r failed", request.method, request.url.path)
            return reply(translated(error))

    return guard
