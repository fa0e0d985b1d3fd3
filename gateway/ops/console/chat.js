"use strict";
// One conversation over /v1/sessions. The browser keeps the session's name, so that closing the tab does not lose it.
// The gateway keeps the messages and the answer in progress; the page asks for them when it loads.
// A turn goes on while no page is open (see the header below). Stop ends it by telling the gateway.
const log = document.getElementById("log");
const state = document.getElementById("state");
const ask = document.getElementById("ask");
const text = document.getElementById("text");
const stop = document.getElementById("stop");
const session = document.getElementById("session");
const NAMES = { you: "You", agent: "Agent", note: "Note", bad: "Problem" };
const AT_WORK = "The agent is at work.";
const STOPPING = "Stopping. Press Stop once more to listen no longer.";
const BROKEN = "The connection broke; reload the page to see the rest.";
let running = null;
let stopping = false;
// Sent at once: commands that a turn may be waiting for, that end it, or that only look. Other text waits for its end.
const AT_ONCE = /^\/(approve|deny|stop|status|help)(\s|$)/;
let next = false; // send the text in the box when the running turn ends

const fresh = () => "web:" + [...crypto.getRandomValues(new Uint8Array(8))].map((n) => n.toString(16).padStart(2, "0")).join("");
const RECALLED = 100;
const WHO = { user: "you", assistant: "agent" };
const kept = localStorage.getItem("session");
session.value = kept || fresh();
session.addEventListener("change", () => {
  session.value = session.value.trim() || fresh();
  localStorage.setItem("session", session.value);
  log.replaceChildren();
  rejoin();
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

// Shows the last messages; returns the role of the newest one.
async function recall() {
  const answer = await fetch(path() + "?order=desc&limit=" + RECALLED);
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error.message);
  for (const { role, text } of [...said.data].reverse()) if (WHO[role] && text) line(WHO[role], text);
  return said.data.length ? said.data[0].role : "";
}

// Shows the messages and the rest of an answer in progress. The stream is opened before the messages are read: if the
// turn ends between the two, its answer is among the messages and the stream is not needed.
async function rejoin() {
  await work(async (signal) => {
    const answer = await fetch(path() + "?stream=true", { signal });
    if (answer.status === 404) return; // the session has no messages yet
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    const reader = answer.body.getReader();
    if ((await recall()) === "user") await follow(reader, false);
    else await reader.cancel();
  });
}

const post = (words, stream, signal) => {
  localStorage.setItem("session", session.value);
  return fetch(path(), {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: stream ? "text/event-stream" : "application/json",
      "x-ostler-on-disconnect": "continue",
    },
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

async function halt() {
  try {
    const answer = await post("/stop", false);
    if (!answer.ok) throw new Error((await answer.json()).error.message);
  } catch (error) {
    line("bad", "The turn cannot be stopped: " + error.message);
  }
}

async function send(words, signal) {
  const answer = await post(words, true, signal);
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  if (!(answer.headers.get("content-type") || "").startsWith("text/event-stream")) {
    const message = await answer.json();
    line(message.kind === "answer" ? "agent" : "note", message.text);
    return;
  }
  await follow(answer.body.getReader(), true);
}

// Handles the events of a turn: session.message.started, .delta, .notice, .permission, and last one with a status.
function teller() {
  let shown = null;
  let over = false;
  const words = (more, whole) => {
    if (!shown) shown = line("agent", "");
    shown.textContent = whole ? more : shown.textContent + more;
    log.scrollTop = log.scrollHeight;
  };
  const hear = (event) => {
    const what = String(event.type || "").split(".").pop();
    if (what === "started" && stopping) halt(); // Stop was pressed before the turn began
    else if (what === "delta" && event.text) words(event.text, false);
    else if (what === "notice") line("note", plain(event.notice));
    else if (what === "permission") {
      line("note", "The agent asks: " + event.permission.title + ". Answer /approve, /approve always or /deny.");
      const facts = details(event.permission.arguments);
      if (facts) line("note", facts);
    } else if (event.message) {
      over = true;
      end(event.message, words);
    }
  };
  return { hear, over: () => over };
}

// The arguments of a permission request, one per line: the command, the paths, the diff.
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
  if (message.status === "cancelled") state.textContent = "Stopped.";
  else if (message.status !== "completed") state.textContent = "Ended early: " + why(message) + ".";
}

const why = (message) => (message.incomplete_details && message.incomplete_details.reason) || message.status;

const plain = (item) => (item.content || []).map((part) => part.text || "").join("") || item.text || "";

// `expected`: whether the stream must contain an answer.
async function follow(reader, expected) {
  const decoder = new TextDecoder();
  const { hear, over } = teller();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch((error) => {
      throw error.name === "AbortError" ? error : new Error(BROKEN);
    });
    rest += decoder.decode(value || new Uint8Array(), { stream: !done });
    const frames = rest.split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      const data = frame.split("\n").filter((part) => part.startsWith("data:")).map((part) => part.slice(5).trimStart());
      if (!data.length) continue;
      expected = true;
      hear(JSON.parse(data.join("\n")));
    }
    if (done && expected && !over()) throw new Error(BROKEN);
    if (done) return;
  }
}

// Runs one answer at a time: text that the user submits meanwhile is sent after it.
async function work(task) {
  running = new AbortController();
  stopping = false;
  stop.hidden = false;
  session.readOnly = true;
  state.textContent = AT_WORK;
  try {
    await task(running.signal);
    if (state.textContent === AT_WORK || state.textContent === STOPPING || next) state.textContent = "";
  } catch (error) {
    if (error.name === "AbortError") state.textContent = "No longer listening; reload the page to see the rest.";
    else {
      state.textContent = "";
      line("bad", error.message);
    }
  }
  running = null;
  stop.hidden = true;
  session.readOnly = false;
  if (next) {
    next = false;
    ask.requestSubmit();
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
  await work((signal) => send(words, signal));
  text.focus();
});

stop.addEventListener("click", () => {
  if (!running) return;
  if (stopping) return running.abort();
  stopping = true;
  state.textContent = STOPPING;
  return halt();
});

text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  ask.requestSubmit();
});

if (kept) rejoin();
