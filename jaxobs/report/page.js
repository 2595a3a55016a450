// Follows the run: fetches this page anew each second and changes only what differs, so that nothing flickers and
// focus, open tables and the place on the page stay. Shows what is under the pointer at once; arrow keys go from point
// to point of a chart that has the focus.
"use strict";
const EVERY = 1000, PATIENCE = 8000;
const tip = document.body.appendChild(document.createElement("div"));
tip.id = "tip"; tip.hidden = true; tip.setAttribute("role", "status");
let current = null, seen = Date.now();

// A <title> is shown by the browser too, a second late: what it says goes where the browser does not look.
function adopt(root) {
  for (const title of root.querySelectorAll(".mark > title")) {
    title.parentNode.setAttribute("data-tip", title.textContent);
    title.remove();
  }
}
function same(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id || "") === (other.id || "");
}
const OURS = new Set(["open", "data-here"]);
function change(old, fresh) {
  if (old.nodeType !== 1) { if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue; return; }
  for (const {name} of [...old.attributes]) if (!fresh.hasAttribute(name) && !OURS.has(name)) old.removeAttribute(name);
  for (const {name, value} of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old === current) old.classList.add("here");
  const pieces = [...fresh.childNodes];
  let place = old.firstChild;
  for (const piece of pieces) {
    if (piece.id && (!place || place.id !== piece.id)) {  // a section that came or went before this one
      const kept = [...old.children].find((child) => child.id === piece.id);
      if (kept) { old.insertBefore(kept, place); place = kept; }
    }
    if (place && same(place, piece)) { change(place, piece); place = place.nextSibling; }
    else old.insertBefore(document.importNode(piece, true), place);
  }
  while (place) { const next = place.nextSibling; place.remove(); place = next; }
}
async function follow() {
  if (!document.hidden) {
    const state = document.getElementById("state");
    try {
      const answer = await fetch(location.href, {cache: "no-store", signal: AbortSignal.timeout(PATIENCE)});
      if (!answer.ok) throw new Error(answer.status);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      adopt(fresh);
      change(document.querySelector("main"), fresh.querySelector("main"));
      document.title = fresh.title;
      seen = Date.now();
      if (current && current.isConnected) tip.textContent = current.dataset.tip || "";
      else hide();
    } catch {
      const ago = Math.round((Date.now() - seen) / 1000);
      state.textContent = `The job has ended, or does not answer: this is how it was ${ago} s ago.`;
    }
  }
  setTimeout(follow, EVERY);
}
function show(mark, x, y) {
  hide();
  current = mark;
  mark.classList.add("here");
  tip.textContent = mark.dataset.tip;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - box.width - 6))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(6, y - box.height - 12) : y + 18}px`;
}
function hide() {
  if (current) current.classList.remove("here");
  current = null;
  tip.hidden = true;
}
document.addEventListener("pointermove", (event) => {
  const mark = event.target.closest?.("[data-tip]");
  if (mark) show(mark, event.clientX, event.clientY);
  else if (current && !document.activeElement?.contains(current)) hide();
});
document.addEventListener("keydown", (event) => {
  const chart = document.activeElement?.closest?.(".jaxobs-chart");
  if (event.key === "Escape") return hide();
  if (!chart || !["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
  const left = (mark) => mark.getBoundingClientRect().left;
  const marks = [...chart.querySelectorAll("[data-tip]")].sort((one, other) => left(one) - left(other));
  if (!marks.length) return;
  event.preventDefault();
  const at = marks.indexOf(current), last = marks.length - 1;
  const next = event.key === "Home" ? 0 : event.key === "End" ? last
    : event.key === "ArrowRight" ? (at < 0 ? 0 : Math.min(last, at + 1)) : at < 0 ? last : Math.max(0, at - 1);
  const box = marks[next].getBoundingClientRect();
  show(marks[next], box.left + box.width / 2, box.top + Math.min(box.height / 2, 40));
});
document.addEventListener("focusout", hide);
adopt(document);
setTimeout(follow, EVERY);
