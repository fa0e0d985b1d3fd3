"use strict";
// The live part is changed in place: open details stay open, and the focused element keeps the focus.
const live = document.getElementById("live");
const said = document.getElementById("said");
const link = document.getElementById("link");

const named = (node) => (node.nodeType === 1 && node.id) || "";

function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
  if (old.nodeType === 3) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return undefined;
  }
  attributes(old, fresh);
  return children(old, fresh);
}

function attributes(old, fresh) {
  for (const { name, value } of [...fresh.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  }
}

function children(old, fresh) {
  const byName = new Map([...old.childNodes].filter(named).map((node) => [node.id, node]));
  let place = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const known = named(next) && byName.get(next.id);
    if (known) {
      if (known === place) place = place.nextSibling;
      else old.insertBefore(known, place);
      morph(known, next);
    } else if (place && !named(place) && !named(next)) {
      const after = place.nextSibling;
      morph(place, next);
      place = after;
    } else {
      old.insertBefore(next, place);
    }
  }
  while (place) {
    const after = place.nextSibling;
    place.remove();
    place = after;
  }
}

// When the focused element is moved or removed, keyboard users are not sent to the top of the page: the focus stays, or
// moves to the next control nearby.
function around(node) {
  const names = [];
  for (let at = node; at && at !== live; at = at.parentElement) if (at.id) names.push(at.id);
  return names;
}

function refocus(node, names) {
  if (node.isConnected) return node.focus();
  const places = [...names.map((name) => document.getElementById(name)), live];
  const next = places.map((place) => place && place.querySelector("summary")).find(Boolean);
  return next && next.focus();
}

function tell(text, good) {
  const line = document.createElement("p");
  line.className = good ? "notice" : "notice bad";
  line.textContent = text;
  said.replaceChildren(line);
}

const source = new EventSource("/status/events");
source.addEventListener("live", (event) => {
  const { html, time } = JSON.parse(event.data);
  const fresh = document.createElement("div");
  fresh.innerHTML = html;
  const held = live.contains(document.activeElement) && document.activeElement;
  const names = held && around(held);
  children(live, fresh);
  if (held && document.activeElement !== held) refocus(held, names);
  link.textContent = "Live. Last change " + new Date(time * 1000).toLocaleTimeString() + ".";
  document.documentElement.dataset.live = "yes";
});
source.addEventListener("error", () => {
  link.textContent = "The gateway does not answer; trying again.";
});

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches(".act")) return;
  event.preventDefault();
  const details = form.closest("details");
  const names = around(details);
  try {
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetch("/act", { method: "POST", body, headers: { accept: "application/json" } });
    const told = await answer.json();
    tell(answer.ok ? told.said : told.error.message, answer.ok);
  } catch (error) {
    tell("The gateway did not answer: " + error.message, false);
  }
  if (details) {
    details.open = false;
    refocus(details.querySelector("summary"), names);
  }
});

document.addEventListener("keydown", (event) => {
  const details = event.key === "Escape" && event.target.closest("details[open]");
  if (!details) return;
  details.open = false;
  details.querySelector("summary").focus();
});
