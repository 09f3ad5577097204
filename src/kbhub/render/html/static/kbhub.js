// What the pages need beyond HTML: parts that are fetched, keys, a list's current item, copying, asking before something
// is lost, progress.
"use strict";

// Fills an element with a part of a page, and says whether it did; a later part takes the place of one under way.
const underWay = new Map();
async function fill(place, address) {
  underWay.get(place)?.abort();
  const control = new AbortController();
  underWay.set(place, control);
  try {
    const answer = await fetch(address, { headers: { "X-Part": "1" }, signal: control.signal });
    const text = await answer.text();
    // What is refused comes as a page of its own, or as JSON.
    const part = answer.ok ? text : new DOMParser().parseFromString(text, "text/html").querySelector("[role=alert]")?.outerHTML ?? text;
    const held = place.contains(document.activeElement) && document.activeElement.getAttribute("href");
    place.innerHTML = part;
    const same = [...place.querySelectorAll("[href]")].find((one) => one.getAttribute("href") === held && one.checkVisibility());
    if (held) (same ?? place.querySelector("[data-open]"))?.focus({ preventScroll: true });
    if (!answer.ok) return false;
  } catch (error) {
    if (error.name !== "AbortError") place.innerHTML = '<p class="problem" role="alert">The connection was lost. Try again.</p>';
    return false;
  } finally {
    if (underWay.get(place) === control) underWay.delete(place);
  }
  diagrams();
  return true;
}

// A part that has a part of its own is not complete yet.
async function follow(part, address) {
  const next = (await fill(part, address)) && part.querySelector("[data-part]");
  if (next) setTimeout(() => follow(part, next.dataset.part), 100);
}

const inField = (element) => element.matches("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");
let waitingForGo = false;

function items() {
  return [...(document.querySelector("dialog[open]") ?? document).querySelectorAll("[data-item]")];
}

function choose(item, rest) {
  items().forEach((one) => one.classList.toggle("current", one === item));
  preview(item, rest);
}

// From outside of the list to its current item, else to the next or the one before.
function move(step) {
  const all = items();
  const at = all.findIndex((item) => item.classList.contains("current"));
  const inside = at >= 0 && all[at].contains(document.activeElement);
  const next = all[Math.max(0, Math.min(all.length - 1, inside ? at + step : Math.max(at, 0)))];
  if (!next) return;
  choose(next);
  next.scrollIntoView({ block: "nearest" });
  next.querySelector("[data-open]")?.focus({ preventScroll: true });
}

// Where the window has room, the current hit is shown in its document, after a rest of so many milliseconds: while one
// types, the hits come first.
let waiting = 0;
document.addEventListener("input", () => clearTimeout(waiting));
function preview(item, rest = 60) {
  const pane = document.querySelector("#preview");
  const link = item?.querySelector("[data-open]");
  const terms = JSON.parse(item?.closest("[data-terms]")?.dataset.terms ?? "[]");
  clearTimeout(waiting);
  if (!link || !pane?.checkVisibility()) return;
  const of = [link.href, ...terms.map((term) => `term=${encodeURIComponent(term)}`)].join("&");
  if (pane.dataset.of === of) return;
  waiting = setTimeout(async () => {
    pane.dataset.of = of;
    if (!(await fill(pane, of))) return;
    const found = pane.querySelector(".body .found");
    pane.scrollTop = found ? found.offsetTop - pane.clientHeight / 3 : 0;
  }, rest);
}

// The first hit, or the one that was read last, if one comes back.
const lastHits = () => JSON.parse(sessionStorage.getItem("hits") ?? '{"hits": []}');
function begin() {
  const hits = [...document.querySelectorAll(".hit")], { back, last } = lastHits();
  const read = back === location.href && hits.find((hit) => hit.querySelector("[data-open]").href === last);
  if (!hits.length || !document.querySelector("#preview").checkVisibility() || document.querySelector(".current")) return;
  choose(read || hits[0], 250);
  if (read) read.scrollIntoView({ block: "nearest" });
}

// Hits come as one types; a question is answered when it is sent. The first hits are a step back to where one was.
let soon = 0;
async function searched() {
  const form = document.querySelector("#search"), values = new URLSearchParams(new FormData(form));
  if (values.get("mode") === "ask" || !(await fill(document.querySelector("#results"), `/?${values}`))) return;
  history[location.search ? "replaceState" : "pushState"](null, "", `/?${values}`);
  document.title = `${form.q.value || "Search"} · kbhub`;
  begin();
  tell();
}

// Tells who listens how many hits there are, when one rests from typing.
let telling = 0;
function tell() {
  clearTimeout(telling);
  telling = setTimeout(() => {
    const told = document.querySelector("#told"), said = document.querySelector("#results [data-count]")?.textContent ?? "";
    if (told.textContent !== said) told.textContent = said;
  }, 500);
}

// The hits that are shown, again: of the same page, and with the same one chosen; unless others are under way.
async function searchedAgain() {
  const results = document.querySelector("#results"), current = document.querySelector(".current [data-open]")?.href;
  if (!results || underWay.has(results) || results.querySelector("#answer") || !(await fill(results, location.href))) return;
  const same = items().find((item) => item.querySelector("[data-open]").href === current);
  if (same) choose(same);
  else begin();
  tell();
}
document.addEventListener("input", ({ target }) => {
  if (!target.matches("#q, #goto") || !target.form.matches("#search, #palette form")) return;
  clearTimeout(soon);
  soon = target.id === "q" ? setTimeout(searched, 30) : setTimeout(listPlaces, 60);
});
addEventListener("popstate", () => document.querySelector("#search") && !location.hash && location.reload());
document.addEventListener("DOMContentLoaded", () => {
  begin();
  document.querySelectorAll("[data-part]").forEach((part) => follow(part, part.dataset.part));
  const field = document.querySelector("#search #q"); // what is typed before this script listens
  if (field && field.value !== field.defaultValue) searched();
});
document.addEventListener("change", (event) => {
  const { form, name, value } = event.target;
  if (name !== "mode") return;
  if (value !== "ask") searched();
  else if (form.q.value.trim()) form.requestSubmit();
});

// A document that was opened from results knows the way back, and the next one.
addEventListener("pagehide", () => {
  const hits = [...document.querySelectorAll(".hit h2 [data-open]")].map((link) => link.href);
  if (hits.length) sessionStorage.setItem("hits", JSON.stringify({ back: location.href, hits }));
});
document.addEventListener("DOMContentLoaded", () => {
  const { back, hits } = lastHits(), at = hits.indexOf(location.href);
  if (at >= 0) sessionStorage.setItem("hits", JSON.stringify({ back, hits, last: location.href }));
  for (const [name, href] of [["#back", back], ["#next-hit", hits[at + 1]]]) {
    const link = document.querySelector(name);
    if (link && at >= 0 && href) Object.assign(link, { href, hidden: false });
  }
});

// The outline shows where one is.
function mark() {
  const links = [...document.querySelectorAll(".outline a")], middle = innerHeight / 2;
  const line = document.querySelector(".body .found") ? middle : Math.min(middle, scrollY + 160); // what was found is there
  const at = links.findLast((link) => link.hash && document.querySelector(link.hash)?.getBoundingClientRect().top < line);
  links.forEach((link) => (link === at ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
}
addEventListener("scroll", mark, { passive: true });
addEventListener("pageshow", mark);

// A diagram is drawn in a frame of its own, which gets nothing but its text; where that fails, the text stays.
function diagrams() {
  for (const code of document.querySelectorAll(".body .language-mermaid:not([data-framed])")) {
    code.dataset.framed = "";
    const frame = document.createElement("iframe");
    Object.assign(frame, { className: "diagram", title: "Mermaid diagram", loading: "lazy", sandbox: "allow-scripts", src: "/diagram" });
    frame.addEventListener("load", () => frame.contentWindow.postMessage(code.textContent, "*"));
    code.parentElement.before(frame);
  }
}
document.addEventListener("DOMContentLoaded", diagrams);
addEventListener("message", ({ source, data: height }) => {
  const frame = [...document.querySelectorAll(".diagram")].find((one) => one.contentWindow === source);
  if (!frame || !Number.isFinite(height)) return;
  if (height < 0) return frame.remove();
  frame.style.height = `${Math.min(height, 4000)}px`;
  const text = frame.nextElementSibling;
  if (!text.matches("pre")) return;
  const details = document.createElement("details"), summary = document.createElement("summary");
  details.open = text.matches(":has(.found)");
  summary.textContent = "Source of the diagram";
  frame.after(details);
  details.append(summary, text);
});

function openPalette() {
  const palette = document.querySelector("#palette");
  if (document.querySelector("dialog[open]")) return;
  palette.showModal();
  palette.querySelector("input").select();
  listPlaces();
}

// Below the pages, the palette lists what can be done here: what the page itself offers, under its name as a command; and
// the headings of the open document, before those of others.
const OWN_HEADINGS = 8;
async function listPlaces() {
  const places = document.querySelector("#places"), typed = document.querySelector("#goto").value;
  if (!(await fill(places, `/places?q=${encodeURIComponent(typed)}`))) return;
  const words = typed.toLowerCase().split(/\s+/), list = places.querySelector("ul");
  const fit = (all, nameOf) => [...document.querySelectorAll(all)].filter((one) => words.every((word) => nameOf(one).toLowerCase().includes(word)));
  const [command, heading] = places.querySelectorAll("template"), title = document.querySelector(".trail b")?.textContent;
  const offer = (does, name, template, before) => {
    const item = template.content.firstElementChild.cloneNode(true);
    item.querySelector("span span").textContent = name;
    item.querySelector("button").addEventListener("click", () => {
      document.querySelector("#palette").close();
      does.click();
    });
    list.insertBefore(item, before);
  };
  const rest = list.querySelector("li:not(.page)");
  fit("[data-command]:not([hidden], :disabled)", (one) => one.dataset.command).forEach((one) => offer(one, one.dataset.command, command, rest));
  const own = typed.trim() ? fit(".outline a", (one) => one.textContent).slice(0, OWN_HEADINGS) : [], names = own.map((one) => one.textContent);
  for (const other of list.querySelectorAll("li:has(.of)")) {
    if (other.querySelector(".of").textContent === title && names.includes(other.querySelector("span").textContent.trim())) other.remove();
  }
  const others = list.querySelector("li:has(.of), li:has([href^='/?q='])");
  own.forEach((one) => offer(one, one.textContent, heading, others));
}

// Opens what the palette lists first for all that was typed.
async function openFirst() {
  clearTimeout(soon);
  await listPlaces();
  items()[0]?.querySelector("[data-open]")?.click();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    openPalette();
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target, inDialog = target.closest("dialog");
  const up = event.key === "ArrowUp";
  if (event.key === "Escape") {
    if (inDialog) {
      event.preventDefault(); // a search field with text would take the first one
      inDialog.close();
    } else if (inField(target)) target.blur();
    waitingForGo = false;
  } else if ((up || event.key === "ArrowDown") && items().length && target.matches("#q, #goto, body, main, [data-open]")) {
    event.preventDefault();
    const field = document.querySelector(inDialog ? "#goto" : "#q");
    if (!up) move(1);
    else if (items()[0].contains(target)) field?.focus();
    else move(-1);
  } else if (!inField(target) && !document.querySelector("dialog[open]")) pressed(event);
});

function pressed(event) {
  const field = document.querySelector("#q");
  if (waitingForGo) {
    waitingForGo = false;
    document.querySelector(`[data-go="${CSS.escape(event.key)}"]`)?.click();
  } else if (event.key === "/") {
    event.preventDefault();
    if (field) field.select();
    else location.href = "/";
  } else if (event.key === "Enter" && event.target.matches("body, main")) document.querySelector(".current [data-open]")?.click();
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "g") waitingForGo = true;
  else if (event.key === "x") document.querySelector(".current input[type=checkbox]")?.click();
  else if (event.key === "n") document.querySelector("#next-hit:not([hidden])")?.click();
  else if (event.key === "?") document.querySelector("#keys").showModal();
}

document.addEventListener("click", async (event) => {
  if (event.target.closest("[data-keys]")) document.querySelector("#keys").showModal();
  if (event.target.closest("[data-palette]")) openPalette();
  if (event.target.closest("#palette") === event.target) event.target.close();
  const hit = event.target.closest(".hit");
  if (hit && !event.target.closest("a, details")) choose(hit);
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
const chosen = (form, which = "") => form.querySelectorAll(`input[name=id]:checked${which}`).length;
function allow() {
  for (const button of document.querySelectorAll("[data-least]")) {
    const replaced = "current" in button.dataset && chosen(button.form, "[data-replaced]");
    button.disabled = replaced || chosen(button.form) < Number(button.dataset.least);
    button.title = replaced ? "A superseded memory cannot be merged." : "";
  }
}
document.addEventListener("change", (event) => {
  allow();
  if (event.target.form && "live" in event.target.form.dataset) event.target.form.requestSubmit();
});
addEventListener("pageshow", allow);

// Marks the words of memories that the result of their merge lacks.
function markLacking() {
  const result = document.querySelector("[data-result]"), word = /([\p{L}\p{N}_]+)/u;
  const said = new Set(result?.value.toLowerCase().split(word));
  for (const place of document.querySelectorAll("[data-lacking]")) {
    const parts = place.textContent.split(word).map((part) => (said.has(part.toLowerCase()) || !word.test(part) ? part : Object.assign(document.createElement("mark"), { textContent: part })));
    place.replaceChildren(...parts);
  }
}
document.addEventListener("input", markLacking);
addEventListener("pageshow", markLacking);

document.addEventListener("submit", (event) => {
  if (event.target.matches("#palette > [role=search]")) {
    event.preventDefault();
    openFirst();
    return;
  }
  const { confirm: one, confirmMany: many } = event.submitter?.dataset ?? {};
  const count = chosen(event.target);
  const question = many && count > 1 ? many.replace("{count}", count) : one;
  if (question && !confirm(question)) event.preventDefault();
});

const banner = document.querySelector("#indexing");
if (banner) {
  let before = !banner.hidden;
  const source = new EventSource(banner.dataset.events);
  source.onmessage = (event) => {
    const { bases, done, todo } = JSON.parse(event.data);
    banner.hidden = !bases.length;
    banner.textContent = `Indexing ${bases.join(", ")}: ${done} of ${todo} files`;
    if (before && !bases.length) searchedAgain();
    before = bases.length > 0;
  };
  addEventListener("pagehide", () => source.close());
}

// Before the browser scrolls to a fragment of its own accord, show what was found.
if (!location.hash) document.querySelector(".body .found")?.scrollIntoView({ block: "center", behavior: "instant" });
