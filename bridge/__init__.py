"""The tool bridge: every tool call reaches its own session. May import wire and metrics, never pool or gateway.

    async with open_bridge() as bridge, open_pool(settings, tool_port=bridge) as pool:
        async with await pool.lease(key, tools=[weather]) as lease:
            ...

The names below are imported at first use: the relay is part of this package and is started for every session.
"""

from typing import TYPE_CHECKING

from ostler.wire.public_names import exports

if TYPE_CHECKING:
    from ostler.bridge.calls import CallResult as CallResult
    from ostler.bridge.calls import Dispatcher as Dispatcher
    from ostler.bridge.calls import ToolCall as ToolCall
    from ostler.bridge.context import session_context as session_context
    from ostler.bridge.errors import BridgeError as BridgeError
    from ostler.bridge.offer import Offer as Offer
    from ostler.bridge.schema import SignatureRefused as SignatureRefused
    from ostler.bridge.server import Bridge as Bridge
    from ostler.bridge.server import open_bridge as open_bridge
    from ostler.bridge.session_binding import SessionBinding as SessionBinding
    from ostler.bridge.settings import BridgeSettings as BridgeSettings
    from ostler.bridge.tool import Tool as Tool
    from ostler.bridge.tool import ToolContext as ToolContext
    from ostler.bridge.tool import ToolError as ToolError

HOMES = {
    "Bridge": "server",
    "BridgeError": "errors",
    "BridgeSettings": "settings",
    "CallResult": "calls",
    "Dispatcher": "calls",
    "Offer": "offer",
    "SessionBinding": "session_binding",
    "SignatureRefused": "schema",
    "Tool": "tool",
    "ToolCall": "calls",
    "ToolContext": "tool",
    "ToolError": "tool",
    "open_bridge": "server",
    "session_context": "context",
}

__getattr__, __dir__ = exports(__name__, HOMES)
