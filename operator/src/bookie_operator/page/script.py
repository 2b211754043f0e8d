"""What keeps the page current: it fetches its own content again, and says when it cannot.

Where nothing changed nothing is touched; what is opened or in focus stays so. A server that is
frozen keeps its connections open, so an answer has a time limit.
"""

from typing import Final

SCRIPT: Final = """
"use strict";
const EVERY_MS = 2000, LATE_MS = 10000, main = document.querySelector("main");
const state = document.getElementById("state"), words = document.getElementById("current");
let shown = main.innerHTML, since = new Date();
function put(html) {
  const open = new Set([...main.querySelectorAll("details[open]")].map(one => one.id));
  const focused = document.activeElement && document.activeElement.id;
  main.innerHTML = html;
  for (const id of open) { const one = document.getElementById(id); if (one) one.open = true; }
  const again = focused && document.getElementById(focused);
  if (again && main.contains(again)) again.focus({preventScroll: true});
}
async function look() {
  if (document.hidden) return;
  try {
    const signal = AbortSignal.timeout(LATE_MS);
    const answer = await fetch("content", {cache: "no-store", redirect: "error", signal});
    const html = await answer.text();
    if (!answer.ok) throw new Error(html.trim() || "answered " + answer.status);
    if (html !== shown) { put(html); shown = html; }
    since = new Date();
    state.className = "";
    words.textContent = "current";
  } catch (error) {
    state.className = "late";
    words.textContent = "no answer since " + since.toLocaleTimeString() + ": " + error.message;
  }
}
(async () => { for (;;) {
  await new Promise(wake => setTimeout(wake, EVERY_MS));
  await look();
} })();
document.addEventListener("visibilitychange", look);
"""
