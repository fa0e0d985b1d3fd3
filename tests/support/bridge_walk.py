"""A model of the bridge's routing, walked beside the real one. No loop, no sockets, no clock.

The model is deliberately dumb: it writes down what each session published and what each client asked, and checks every
frame that comes out against that. `Core` is the code under test; a mutant is the same source with one patch.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import ostler.bridge.binding as binding_module
from ostler.bridge.calls import CallResult
from ostler.bridge.errors import CallRefused, CallWithdrawn
from ostler.bridge.settings import BridgeSettings
from ostler.bridge.stats import Stats
from ostler.bridge.toolbox import Toolboxes

ROOM = Path(binding_module.__file__).parent
# In the order in which they import each other.
PURE = ("binding", "bindings", "mcp", "conversation")
SLOTS = 20
PROCESSES = 4
NAMES = ("alpha", "beta", "gamma")
MAX_CALLS = 2
REFUSED = -32010


@dataclass(frozen=True)
class Core:
    """The routing code: as it is, or with a patch."""

    binding: Any
    bindings: Any
    mcp: Any
    conversation: Any


def core(patches: Mapping[str, tuple[str, str]] | None = None) -> Core:
    """Fresh modules from source, so that a mutant shares nothing with the real ones."""
    before = {name: sys.modules.get(f"ostler.bridge.{name}") for name in PURE}
    made: dict[str, ModuleType] = {}
    try:
        for name in PURE:
            source = (ROOM / f"{name}.py").read_text()
            if patches is not None and name in patches:
                old, new = patches[name]
                assert source.count(old) == 1, f"{name}: {old!r} is there {source.count(old)} times"
                source = source.replace(old, new)
            module = ModuleType(f"ostler.bridge.{name}")
            sys.modules[module.__name__] = made[name] = module
            exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    finally:
        for name, module_before in before.items():
            if module_before is None:
                sys.modules.pop(f"ostler.bridge.{name}", None)
            else:
                sys.modules[f"ostler.bridge.{name}"] = module_before
    return Core(**made)


@dataclass
class Line:
    """One client's connection, with what it still has to hear."""

    serial: int
    process: int
    slot: "Slot"
    open: bool = True
    frames: list[dict[str, Any]] = field(default_factory=list)
    waiting: int = 0

    def send(self, frame: bytes) -> None:
        assert self.open, "a frame went to a closed connection"
        assert frame.endswith(b"\n")
        self.frames.append(json.loads(frame))


@dataclass
class Slot:
    """One session: what it published, who speaks for it, what was asked."""

    number: int
    digest: bytes
    binding: Any
    conversation: Any = None
    owner: int | None = None
    mark: str | None = None
    names: frozenset[str] = frozenset()
    line: Line | None = None
    last_process: int | None = None
    asked: dict[int, str] = field(default_factory=dict)
    revoked: bool = False


class Walk:
    def __init__(self, code: Core, *, tells_processes: bool = True) -> None:
        self.code = code
        self.tells_processes = tells_processes
        self.table = code.bindings.Bindings(tells_processes)
        self.toolboxes = Toolboxes()
        self.stats = Stats()
        self.settings = BridgeSettings(data_directory=Path("/nowhere"))
        self.slots: dict[int, Slot] = {}
        self.lines: list[Line] = []
        self.running: list[tuple[Slot, Any]] = []
        self.cancelled: list[Any] = []
        self.count = 0

    # What the runner is to a conversation.
    def start(self, binding: Any, call: Any) -> None:
        slot = next(slot for slot in self.slots.values() if slot.binding is binding)
        self.running.append((slot, call))

    def cancel(self, call: Any) -> None:
        self.cancelled.append(call)
        self.running = [(slot, other) for slot, other in self.running if other is not call]

    def process(self, number: int) -> Any:
        return self.code.binding.PeerIdentity(100 + number, 1000 + number)

    def issue(self, number: int) -> None:
        if number in self.slots and not self.slots[number].revoked:
            return
        self.count += 1
        binding = self.code.binding.Binding(self.toolboxes.of(()), max_calls=MAX_CALLS)
        slot = Slot(number, b"digest %d" % self.count, binding)
        slot.conversation = self.code.conversation.McpClient(
            binding, settings=self.settings, runner=self, stats=self.stats, on_attached=lambda: None
        )
        self.table.issue(slot.digest, binding)
        self.slots[number] = slot

    def publish(self, number: int, first: int, count: int) -> None:
        slot = self.live(number)
        if slot is None:
            return
        self.count += 1
        names = [NAMES[(first + offset) % len(NAMES)] for offset in range(count)]
        slot.mark, slot.names = f"{number}/{self.count}", frozenset(names)
        tools = self.toolboxes.of([{"name": name, "inputSchema": {}} for name in names])
        slot.binding.publish(tools, slot.mark, f"context {slot.mark}")

    def unpublish(self, number: int) -> None:
        slot = self.live(number)
        if slot is not None:
            slot.mark, slot.names = None, frozenset()
            self.withdraw(slot, slot.binding.unpublish()[1])

    def revoke(self, number: int) -> None:
        slot = self.live(number)
        if slot is None:
            return
        self.withdraw(slot, slot.binding.revoke())
        slot.revoked, slot.mark, slot.names = True, None, frozenset()
        binding, serial = self.table.forget(slot.digest)
        assert binding is slot.binding
        assert serial == (None if slot.line is None else slot.line.serial)

    def own(self, number: int, process: int) -> None:
        slot = self.live(number)
        if slot is not None:
            slot.owner = process
            slot.binding.own(self.process(process))

    def greet(self, number: int, process: int, parent: int) -> None:
        """A process, child of another, says hello with a token; it may be one that was revoked."""
        slot = self.slots.get(number)
        if slot is None:
            return
        self.count += 1
        line = Line(self.count, process, slot)
        ancestry = (self.process(process), self.process(parent)) if self.tells_processes else ()
        peer = self.code.bindings.RelayPeer(ancestry)
        admitted = self.table.admit(line.serial, slot.digest, peer)
        wanted = self.judge(slot, process, parent)
        if wanted == "SECOND":
            assert admitted == self.code.bindings.Compromised(slot.binding), f"{admitted}: two processes with a token"
            return
        if wanted is not None:
            assert admitted is getattr(self.code.bindings.RejectReason, wanted), f"{admitted} instead of {wanted}"
            return
        assert admitted.binding is slot.binding, "a hello was given another session's binding"
        assert admitted.displaced == (None if slot.line is None else slot.line.serial)
        assert admitted.resumed == (self.tells_processes and slot.last_process == process)
        if slot.line is not None:
            slot.line.open = False
        if not admitted.resumed:
            slot.asked.clear()
        slot.line, slot.last_process = line, process
        self.lines.append(line)
        slot.conversation.connect(line, resumed=admitted.resumed)
        self.hear(slot)

    def judge(self, slot: Slot, process: int, parent: int) -> str | None:
        if slot.revoked:
            return "UNKNOWN"
        if not self.tells_processes:
            return None if slot.line is None else "SECOND"
        if slot.owner is not None and slot.owner not in (process, parent):
            return "FOREIGN"
        return "SECOND" if slot.last_process not in (None, process) else None

    def drop(self, number: int) -> None:
        slot = self.slots.get(number)
        if slot is None or slot.line is None:
            return
        slot.line.open = False
        assert self.table.part(slot.line.serial) is (None if slot.revoked else slot.binding)
        slot.line = None
        slot.conversation.disconnect()

    def call(self, number: int, name: int, ident: int) -> None:
        slot = self.slots.get(number)
        if slot is None or slot.line is None:
            return
        params = {"name": NAMES[name], "arguments": {"n": ident}}
        refusal = self.refusal(slot, NAMES[name], ident)
        reply = self.ask(slot, "tools/call", params, ident)
        if refusal is not None:
            assert reply is not None
            assert reply["error"]["code"] == refusal
            return
        assert reply is None, f"a call was answered before it ended: {reply}"
        where, begun = self.running[-1]
        assert where is slot
        assert begun.dispatcher == slot.mark, "a call began on another dispatcher than its session's latest"
        assert begun.context == f"context {slot.mark}"
        assert begun.origin is slot.conversation
        assert (begun.name, begun.request_id) == (NAMES[name], ident)
        slot.asked[ident] = begun.dispatcher

    def refusal(self, slot: Slot, name: str, ident: int) -> int | None:
        if slot.revoked:
            return REFUSED
        if ident in slot.asked:
            return -32600
        if slot.mark is None:
            return -32011
        if name not in slot.names:
            return -32602
        return -32013 if sum(where is slot for where, _ in self.running) >= MAX_CALLS else None

    def native(self, number: int, name: int) -> None:
        """A channel without relay asks; refusals must be the same."""
        slot = self.slots.get(number)
        if slot is None:
            return
        wanted = self.refusal(slot, NAMES[name], -1)
        call, refused = None, None
        try:
            call = slot.binding.begin(NAMES[name], {}, "n", self)
        except CallRefused as refusal:
            refused = self.code.mcp.REFUSAL_CODES[type(refusal)]
        assert refused == wanted
        if call is not None:
            assert call.dispatcher == slot.mark
            assert slot.binding.finish(call)

    def tools(self, number: int) -> None:
        slot = self.slots.get(number)
        if slot is None or slot.line is None:
            return
        reply = self.ask(slot, "tools/list", {}, -2)
        assert reply is not None
        if slot.revoked:
            assert reply["error"]["code"] == REFUSED
        else:
            assert {tool["name"] for tool in reply["result"]["tools"]} == slot.names

    def finish(self, which: int) -> None:
        """A tool answers: with the mark of the dispatcher it ran on."""
        if not self.running:
            return
        slot, call = self.running.pop(which % len(self.running))
        assert slot.binding.finish(call), "a call that nobody ended is unknown to its binding"
        call.origin.answer(call, CallResult.text(call.dispatcher))
        assert not slot.binding.finish(call)
        self.hear(slot)

    def abort(self, number: int, ident: int) -> None:
        slot = self.slots.get(number)
        if slot is None or slot.line is None:
            return
        was = len(self.running)
        self.tell(slot, {"method": "notifications/cancelled", "params": {"requestId": ident}})
        assert was - len(self.running) == (slot.asked.pop(ident, None) is not None)

    def withdraw(self, slot: Slot, ended: list[Any]) -> None:
        assert {id(call) for call in ended} == {id(call) for where, call in self.running if where is slot}
        for call in ended:
            call.origin.answer(call, CallWithdrawn())
            self.cancel(call)
            assert not slot.binding.finish(call)
        self.hear(slot)

    def ask(self, slot: Slot, method: str, params: dict[str, Any], ident: int) -> dict[str, Any] | None:
        assert slot.line is not None
        before = len(slot.line.frames)
        self.tell(slot, {"id": ident, "method": method, "params": params})
        said = slot.line.frames[before:]
        del slot.line.frames[before:]
        assert len(said) <= 1
        assert all(reply["id"] == ident for reply in said)
        return said[0] if said else None

    def tell(self, slot: Slot, message: dict[str, Any]) -> None:
        slot.conversation.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def hear(self, slot: Slot) -> None:
        """Every answer belongs to a question of this very client, and says whose dispatcher gave it."""
        if slot.line is None:
            return
        for reply in slot.line.frames:
            mark = slot.asked.pop(reply["id"], None)
            assert mark is not None, f"an answer that nobody here asked for: {reply}"
            if "result" in reply:
                assert reply["result"]["content"][0]["text"] == mark, "an answer from the wrong dispatcher"
            else:
                assert reply["error"]["code"] == -32012
        slot.line.frames.clear()

    def live(self, number: int) -> Slot | None:
        slot = self.slots.get(number)
        return None if slot is None or slot.revoked else slot

    def check(self) -> None:
        """What holds after every step."""
        for slot in self.slots.values():
            mine = {id(call) for where, call in self.running if where is slot}
            assert {id(call) for call in slot.binding.calls} == mine
            if slot.revoked:
                assert not slot.binding.tools.names
        for line in self.lines:
            entitled = line.open and not line.slot.revoked
            spoken_for = self.table._by_connection.get(line.serial)
            assert (spoken_for and spoken_for.binding) is (line.slot.binding if entitled else None)
        self.lines = [line for line in self.lines if line.open]
