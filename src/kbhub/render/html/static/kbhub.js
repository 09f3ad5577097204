// What the pages need beyond HTML: keys, a list's current item, copying, asking before something is lost, progress.
"use strict";

const inField = (element) => element.matches("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");
let waitingForGo = false;

function items() {
  return [...document.querySelectorAll("[data-item]")];
}

function move(step) {
  const all = items();
  const at = all.findIndex((item) => item.classList.contains("current"));
  const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step))];
  if (!next) return;
  all.forEach((item) => item.classList.toggle("current", item === next));
  next.scrollIntoView({ block: "nearest" });
  next.querySelector("[data-open]")?.focus({ preventScroll: true });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  if (event.key === "Escape") {
    if (inField(target)) target.blur();
    waitingForGo = false;
    return;
  }
  if (inField(target)) {
    if (event.key !== "ArrowDown" || target.id !== "q" || !items().length) return;
    event.preventDefault();
    target.blur();
    move(1);
    return;
  }
  if (waitingForGo) {
    waitingForGo = false;
    const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
    if (link) {
      event.preventDefault();
      link.click();
    }
    return;
  }
  const field = document.querySelector("#q");
  if (event.key === "/" && field) {
    event.preventDefault();
    field.focus();
    field.select();
  } else if (event.key === "/") {
    location.href = "/";
  } else if (event.key.startsWith("Arrow") && items().length && target.matches("body, main, [data-open]")) {
    const up = event.key === "ArrowUp";
    if (!up && event.key !== "ArrowDown") return;
    event.preventDefault();
    if (up && field && items()[0].matches(".current")) field.focus();
    else move(up ? -1 : 1);
  } else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "g") waitingForGo = true;
  else if (event.key === "x") document.querySelector(".current input[type=checkbox]")?.click();
  else if (event.key === "?") document.querySelector("#keys").showModal();
});

document.addEventListener("click", async (event) => {
  if (event.target.closest("[data-keys]")) document.querySelector("#keys").showModal();
  const narrow = event.target.closest("button.narrow");
  if (narrow) narrow.ariaExpanded = document.querySelector("#facets").classList.toggle("open");
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    await navigator.clipboard.writeText(copy.dataset.copy);
    const before = copy.textContent;
    copy.textContent = "copied";
    setTimeout(() => (copy.textContent = before), 1200);
  }
});

// Without this script the server says that something has to be selected.
const chosen = (form) => form.querySelectorAll("input[name=id]:checked").length;
function allow() {
  for (const button of document.querySelectorAll("[data-least]")) {
    button.disabled = chosen(button.form) < Number(button.dataset.least);
  }
}
document.addEventListener("change", allow);
addEventListener("pageshow", allow);

document.addEventListener("submit", (event) => {
  const { confirm: one, confirmMany: many } = event.submitter?.dataset ?? {};
  const count = chosen(event.target);
  const question = many && count > 1 ? many.replace("{count}", count) : one;
  if (question && !confirm(question)) event.preventDefault();
});

document.addEventListener("change", (event) => {
  const form = event.target.closest('form[action="/compare"]');
  if (!form) return;
  if (form.querySelectorAll("input[name=hit]:checked").length === 2) form.requestSubmit();
});

const banner = document.querySelector("#indexing");
if (banner) {
  let before = !banner.hidden;
  const source = new EventSource(banner.dataset.events);
  source.onmessage = (event) => {
    const { bases, done, todo } = JSON.parse(event.data);
    banner.hidden = !bases.length;
    banner.textContent = `Indexing ${bases.join(", ")}: ${done} of ${todo} files`;
    if (before && !bases.length) document.body.dispatchEvent(new Event("indexed"));
    before = bases.length > 0;
  };
  addEventListener("pagehide", () => source.close());
}

// Before the browser scrolls to a fragment of its own accord, show what was found.
if (!location.hash) document.querySelector("#doc-found")?.scrollIntoView({ block: "center", behavior: "instant" });
