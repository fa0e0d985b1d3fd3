"use strict";
// One conversation with the chat face. The session's name is kept for this browser tab only; what was said is the
// gateway's to know, and is asked for when the page is loaded again.
const log = document.getElementById("log");
const state = document.getElementById("state");
const ask = document.getElementById("ask");
const text = document.getElementById("text");
const stop = document.getElementById("stop");
const session = document.getElementById("session");
const NAMES = { you: "You", agent: "Agent", note: "Note", bad: "Problem" };
const AT_WORK = "The agent is at work.";
let running = null;
// What a turn may be waiting for, or what ends it: said beside it. Anything else waits for its end.
const AT_ONCE = /^\/(approve|deny|stop|status|help)(\s|$)/;
let next = false; // what stands in the box is sent when the running turn is over

const fresh = () => "web:" + [...crypto.getRandomValues(new Uint8Array(8))].map((n) => n.toString(16).padStart(2, "0")).join("");
const RECALLED = 100;
const WHO = { user: "you", assistant: "agent" };
const kept = sessionStorage.getItem("session");
session.value = kept || fresh();
session.addEventListener("change", () => {
  session.value = session.value.trim() || fresh();
  sessionStorage.setItem("session", session.value);
  log.replaceChildren();
  recall();
});

function line(who, words) {
  const item = document.createElement("div");
  item.className = "line " + who;
  const name = document.createElement("b");
  name.textContent = NAMES[who];
  const body = document.createElement("span");
  body.textContent = words;
  item.append(name, body);
  log.append(item);
  log.scrollTop = log.scrollHeight;
  return body;
}

const path = () => "/v1/sessions/" + encodeURIComponent(session.value) + "/messages";

// The end of what was said so far. Nobody waits for it: what is said meanwhile stands alone.
async function recall() {
  const asked = path();
  try {
    const answer = await fetch(asked + "?order=desc&limit=" + RECALLED);
    if (answer.status === 404) return; // nothing was said yet
    const said = await answer.json();
    if (!answer.ok) throw new Error(said.error.message);
    if (asked !== path() || running || log.childElementCount) return;
    for (const { role, text } of said.data.reverse()) if (WHO[role] && text) line(WHO[role], text);
  } catch (error) {
    line("bad", "What was said before cannot be shown: " + error.message);
  }
}

const post = (words, stream, signal) => {
  sessionStorage.setItem("session", session.value);
  return fetch(path(), {
    method: "POST",
    headers: { "content-type": "application/json", accept: stream ? "text/event-stream" : "application/json" },
    body: JSON.stringify({ text: words, stream }),
    signal,
  });
};

async function beside(words) {
  try {
    const answer = await post(words, false);
    const said = await answer.json();
    if (!answer.ok) throw new Error(said.error.message);
    line("note", said.text);
  } catch (error) {
    line("bad", error.message);
  }
}

async function send(words) {
  running = new AbortController();
  const answer = await post(words, true, running.signal);
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  if (!(answer.headers.get("content-type") || "").startsWith("text/event-stream")) {
    const message = await answer.json();
    line(message.kind === "answer" ? "agent" : "note", message.text);
    return;
  }
  await follow(answer.body.getReader());
}

// The events of the chat face: session.message.delta, .notice, .permission, and one of the statuses last.
function teller() {
  let shown = null;
  const words = (more, whole) => {
    if (!shown) shown = line("agent", "");
    shown.textContent = whole ? more : shown.textContent + more;
    log.scrollTop = log.scrollHeight;
  };
  return (event) => {
    const what = String(event.type || "").split(".").pop();
    if (what === "delta" && event.text) words(event.text, false);
    else if (what === "notice") line("note", plain(event.notice));
    else if (what === "permission") {
      line("note", "The agent asks: " + event.permission.title + ". Answer /approve, /approve always or /deny.");
      const facts = details(event.permission.arguments);
      if (facts) line("note", facts);
    } else if (event.message) end(event.message, words);
  };
}

// What is asked for, one fact a line: the command, the paths, the diff.
function details(given) {
  let facts = {};
  try {
    facts = JSON.parse(given || "{}");
  } catch {
    return String(given);
  }
  const word = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  return Object.entries(facts).map(([name, value]) => name + ": " + word(value)).join("\n");
}

function end(message, words) {
  if (message.status === "failed") throw new Error(message.error ? message.error.message : "The turn failed.");
  if (message.text && message.kind === "answer") words(message.text, true);
  else if (message.text) line("note", message.text);
  if (message.status !== "completed") state.textContent = "Ended early: " + message.status + ".";
}

const plain = (item) => (item.content || []).map((part) => part.text || "").join("") || item.text || "";

async function follow(reader) {
  const decoder = new TextDecoder();
  const hear = teller();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest += decoder.decode(value || new Uint8Array(), { stream: !done });
    const frames = rest.split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      const data = frame.split("\n").filter((part) => part.startsWith("data:")).map((part) => part.slice(5).trimStart());
      if (data.length) hear(JSON.parse(data.join("\n")));
    }
    if (done) return;
  }
}

ask.addEventListener("submit", async (event) => {
  event.preventDefault();
  const words = text.value.trim();
  if (!words) return;
  if (running && AT_ONCE.test(words)) {
    line("you", words);
    text.value = "";
    await beside(words);
    return;
  }
  if (running) {
    next = true;
    state.textContent = "Will be sent when the agent is done.";
    return;
  }
  line("you", words);
  text.value = "";
  stop.hidden = false;
  state.textContent = AT_WORK;
  try {
    await send(words);
    if (state.textContent === AT_WORK || next) state.textContent = "";
  } catch (error) {
    if (error.name === "AbortError") state.textContent = "Stopped.";
    else {
      state.textContent = "";
      line("bad", error.message);
    }
  }
  running = null;
  stop.hidden = true;
  text.focus();
  if (next) {
    next = false;
    ask.requestSubmit();
  }
});

stop.addEventListener("click", () => running && running.abort());

text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  ask.requestSubmit();
});

if (kept) recall();
