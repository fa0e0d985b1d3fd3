"""The routes, and the one place where an error of ours becomes an HTTP answer."""

import logging
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.convertors import register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from ostler.gateway.api.body import ResponseBody
from ostler.gateway.api.chat import Chat
from ostler.gateway.api.chat_body import ChatBody
from ostler.gateway.api.conversations import Change, Conversations, NewConversation, NewItems
from ostler.gateway.api.errors import ApiError, on_http_exception, reply, translated
from ostler.gateway.api.health import Health
from ostler.gateway.api.models import ModelList
from ostler.gateway.api.openapi import Documents
from ostler.gateway.api.responses import Responses
from ostler.gateway.api.routes import AnyText, Endpoint, Row
from ostler.gateway.api.sessions import NewMessageBody, SessionRoutes
from ostler.gateway.errors import GatewayError

log = logging.getLogger(__name__)
PAGED = ("limit", "order", "after")
SLUG = "/v1/conversations/{slug:path}"
KEY = "/v1/sessions/{key:any}"


def table(
    responses: Responses,
    chat: Chat,
    *,
    conversations: Conversations,
    sessions: SessionRoutes,
    models: ModelList,
    health: Health,
) -> list[Row]:
    """Every route."""
    one = "/v1/responses/{id}"
    return [
        Row("POST", "/v1/responses", responses.create, "Ask an agent", ResponseBody),
        Row(
            "GET",
            one,
            responses.retrieve,
            "Read a response, or the rest of its stream",
            query=("stream", "starting_after"),
        ),
        Row("DELETE", one, responses.delete, "Delete a response, or erase what only it led to", query=("erase",)),
        Row("POST", f"{one}/cancel", responses.cancel, "Stop a response that is being made"),
        Row("GET", f"{one}/input_items", responses.input_items, "What a response was made from", query=PAGED),
        Row(
            "POST", "/v1/chat/completions", chat.create, "Ask an agent, bringing the whole conversation along", ChatBody
        ),
        Row("POST", "/v1/conversations", conversations.create, "Make a conversation", NewConversation),
        Row("GET", f"{SLUG}/items/{{item}}", conversations.item, "Read one item of a conversation"),
        Row("GET", f"{SLUG}/items", conversations.items, "What was said in a conversation", query=PAGED),
        Row("POST", f"{SLUG}/items", conversations.add_items, "Add items to a conversation", NewItems),
        Row("GET", SLUG, conversations.retrieve, "Read a conversation"),
        Row("POST", SLUG, conversations.update, "Change the metadata of a conversation", Change),
        Row("DELETE", SLUG, conversations.delete, "Forget a conversation's name, or erase it", query=("erase",)),
        Row("POST", f"{KEY}/messages", sessions.say, "Say something, or give a slash command", NewMessageBody),
        Row("GET", f"{KEY}/messages", sessions.messages, "What was said in a session", query=PAGED),
        Row(
            "GET",
            "/v1/sessions",
            sessions.all,
            "Sessions, the last active first; with q what was said in them",
            query=("limit", "offset", "platform", "chat", "live", "q"),
        ),
        Row("GET", KEY, sessions.one, "The session that a key leads to"),
        Row("GET", "/v1/models", models.all, "The models this key may use"),
        Row("GET", "/v1/models/{name:path}", models.one, "One model"),
        Row("GET", "/healthz", health.alive, "Alive", open=True),
        Row("GET", "/readyz", health.ready, "Able to start agents", open=True),
    ]


def application(rows: Sequence[Row], version: str) -> Starlette:
    """The routes, and their documents."""
    register_url_convertor("any", AnyText())
    documents = Documents(rows, version)
    routes = [Route(row.path, guarded(row.endpoint), methods=[row.method]) for row in rows]
    routes += [Route("/openapi.json", documents.openapi), Route("/docs", documents.docs)]
    served = Starlette(routes=routes, exception_handlers={HTTPException: on_http_exception})
    served.router.redirect_slashes = False  # a path that is not ours is a 404 with a reason, not a bare redirect
    return served


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
