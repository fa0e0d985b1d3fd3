"""Closes responses that an earlier run of the gateway left unfinished when it died.

Rules:
- They become incomplete, so that clients that read them know.
- The question of a response that was still queued becomes part of its conversation: its client has a receipt for it, no
  agent has seen it, and the next prompt tells it. Response and question change in one step, so a start that is killed
  does not do it twice.
"""

import logging
from dataclasses import replace

from ostler.gateway.http.decisions import decided
from ostler.gateway.http.items import InputConversation, messages_of, named, read_input
from ostler.gateway.http.response_dialect import incomplete
from ostler.gateway.model.errors import RequestRefused
from ostler.gateway.model.ids import Ids
from ostler.gateway.model.records import ResponseRecord, TurnBegin
from ostler.gateway.model.store import Store

log = logging.getLogger(__name__)


async def close_unfinished(store: Store, ids: Ids) -> None:
    """Close all unfinished responses, the oldest first."""
    for response in await store.unfinished_responses():
        body = {**response.body, "status": "incomplete", "incomplete_details": incomplete("gateway_restarted")}
        closed = replace(response, status="incomplete", body=body)
        if response.status != "queued" or not await keep_question(store, ids, closed):
            await store.save_response(closed)


async def keep_question(store: Store, ids: Ids, response: ResponseRecord) -> bool:
    """Store the response together with its question. False if the conversation has the question already, or does not
    exist."""
    session = await store.live_end(response.session_id)
    names = named(response.input_items)
    if session is None or (names and await store.known_items(session.id, names)):
        return False
    said = read_input(response.input_items, ids.make)
    begin = TurnBegin(
        session.id, messages_of(said, response.id), response, answers_of(said), response.body.get("instructions")
    )
    try:
        await store.begin_turn(begin)
    except RequestRefused as refused:
        log.warning("the question of response %s is not part of its conversation: %s", response.id, refused)
        return False
    return True


def answers_of(said: InputConversation) -> dict[str, object]:
    """Return the results of function calls; decisions were stored when they arrived."""
    settled = decided(said.outputs)
    return {output.call_id: output.text for output in said.outputs if output.call_id not in settled}
