"use strict";
// One conversation with the chat face. The session's name is kept for this browser tab only.
const log = document.getElementById("log");
const state = document.getElementById("state");
const ask = document.getElementById("ask");
const text = document.getElementById("text");
const stop = document.getElementById("stop");
const session = document.getElementById("session");
let running = null;

const fresh = () => "web:" + [...crypto.getRandomValues(new Uint8Array(8))].map((n) => n.toString(16).padStart(2, "0")).join("");
session.value = sessionStorage.getItem("session") || fresh();
sessionStorage.setItem("session", session.value);
session.addEventListener("change", () => {
  session.value = session.value.trim() || fresh();
  sessionStorage.setItem("session", session.value);
  log.replaceChildren();
});

function line(who, words) {
  const item = document.createElement("li");
  item.className = who;
  const name = document.createElement("b");
  name.textContent = who === "you" ? "You" : who === "bad" ? "Problem" : "Agent";
  const body = document.createElement("span");
  body.textContent = words;
  item.append(name, body);
  log.append(item);
  log.scrollTop = log.scrollHeight;
  return body;
}

async function send(words) {
  running = new AbortController();
  const answer = await fetch("/v1/sessions/" + encodeURIComponent(session.value) + "/messages", {
    method: "POST",
    headers: { "content-type": "application/json", accept: "text/event-stream" },
    body: JSON.stringify({ text: words, stream: true }),
    signal: running.signal,
  });
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  if (!(answer.headers.get("content-type") || "").startsWith("text/event-stream")) {
    line("agent", (await answer.json()).text);
    return;
  }
  await follow(answer.body.getReader());
}

async function follow(reader) {
  const decoder = new TextDecoder();
  let rest = "";
  let shown = null;
  const hear = (data) => {
    if (data === "[DONE]") return;
    const event = JSON.parse(data);
    if (event.error) throw new Error(event.error.message || event.error);
    const piece = typeof event.delta === "string" && String(event.type || "").includes("text") ? event.delta : "";
    const whole = event.object === "session.message" ? event.text : "";
    if (!piece && !whole) return;
    if (!shown) shown = line("agent", "");
    if (whole) shown.textContent = whole;
    else shown.textContent += piece;
    log.scrollTop = log.scrollHeight;
  };
  for (;;) {
    const { done, value } = await reader.read();
    rest += decoder.decode(value || new Uint8Array(), { stream: !done });
    const frames = rest.split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      const data = frame.split("\n").filter((part) => part.startsWith("data:")).map((part) => part.slice(5).trimStart());
      if (data.length) hear(data.join("\n"));
    }
    if (done) return;
  }
}

ask.addEventListener("submit", async (event) => {
  event.preventDefault();
  const words = text.value.trim();
  if (!words || running) return;
  line("you", words);
  text.value = "";
  stop.hidden = false;
  state.textContent = "The agent is at work.";
  try {
    await send(words);
    state.textContent = "";
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
});

stop.addEventListener("click", () => running && running.abort());

text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  ask.requestSubmit();
});
