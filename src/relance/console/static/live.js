// Keeps a page fresh: the server says that something has news, and the parts of the page are fetched again.
// Without this script the page reloads itself; without events (a proxy in between) it asks every ten seconds.
"use strict";

(() => {
  const live = document.getElementById("live");
  const words = document.getElementById("live-words");
  const parts = () => Array.from(document.querySelectorAll("[data-part]"));
  let position = live.dataset.from;
  let pending = null;
  let busy = false;
  let again = false;
  let seen = Date.now();

  const say = (state, text) => {
    live.dataset.state = state;
    words.textContent = text;
  };

  const clock = () => new Date().toISOString().slice(11, 19) + " UTC";

  // A part in which somebody types keeps still.
  const inUse = (part) => {
    const active = document.activeElement;
    return part.contains(active) && active.matches("input:not([type=hidden]), select, textarea");
  };

  // What is to be decided never changes under a hand that is about to press a button: the old form is made
  // powerless, and the new one appears when it is asked for.
  const changedUnderHand = (part, fresh) => {
    if (!("careful" in part.dataset) || !part.querySelector("form")) return false;
    const before = part.querySelector("[data-version]");
    const after = fresh.querySelector("[data-version]");
    return before && after && before.dataset.version !== after.dataset.version;
  };

  const holdBack = (part) => {
    if (part.querySelector(".changed")) return;
    for (const button of part.querySelectorAll("button")) button.disabled = true;
    const note = document.createElement("p");
    note.className = "note warn changed";
    note.setAttribute("role", "alert");
    const link = document.createElement("a");
    link.href = window.location.pathname;
    link.textContent = "Show what it is now";
    note.append("The decision has changed since this was shown. ", link);
    part.prepend(note);
  };

  const openDetails = (part) =>
    Array.from(part.querySelectorAll("details")).map((item) => item.open);

  const refreshPart = async (part) => {
    const answer = await fetch(part.dataset.part, { headers: { Accept: "text/html" }, redirect: "error" });
    if (answer.status === 401) {
      window.location.reload();
      return;
    }
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    const fresh = document.createElement("template");
    fresh.innerHTML = await answer.text();
    if (changedUnderHand(part, fresh.content)) {
      holdBack(part);
      return;
    }
    if (inUse(part)) return;
    const open = openDetails(part);
    part.replaceChildren(fresh.content);
    part.querySelectorAll("details").forEach((item, index) => { item.open = Boolean(open[index]); });
  };

  const refresh = async () => {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      await Promise.all(parts().map(refreshPart));
      seen = Date.now();
      say(source.readyState === EventSource.OPEN ? "live" : "asking", `as of ${clock()}`);
    } catch {
      say("lost", `the server does not answer; shown as of ${new Date(seen).toISOString().slice(11, 19)} UTC`);
    } finally {
      busy = false;
      if (again) {
        again = false;
        soon();
      }
    }
  };

  const soon = () => {
    if (pending === null) {
      pending = window.setTimeout(() => {
        pending = null;
        refresh();
      }, 300);
    }
  };

  const source = new EventSource(`/api/v1/events?after=${encodeURIComponent(position)}`);
  source.addEventListener("ready", () => say("live", `live, as of ${clock()}`));
  source.addEventListener("recorded", (message) => {
    position = message.lastEventId;
    soon();
  });
  source.addEventListener("error", () => say("asking", `events are interrupted; as of ${clock()}`));
  // ages and steps move without events; and it catches up where events do not come through
  window.setInterval(() => { if (!document.hidden) refresh(); }, 10000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
})();
