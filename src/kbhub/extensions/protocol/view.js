// A view in a client (MCP Apps): speaks JSON-RPC with the host around it, shows what a tool found, and calls tools.
"use strict";

const PROTOCOL = "2026-01-26";
const HTML = "kbhub/html";
const root = document.documentElement;
const main = document.querySelector("#main");
const opened = document.querySelector("#opened");
const waiting = new Map();
let number = 0;
let wanted = {};

function send(message) {
  parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
}

function request(method, params) {
  const id = ++number;
  send({ id, method, params });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

function show(result) {
  const text = (result.content ?? []).filter((part) => part.type === "text").map((part) => part.text).join("\n");
  const html = result._meta?.[HTML];
  if (html && !result.isError) main.innerHTML = html;
  else main.replaceChildren(Object.assign(document.createElement("pre"), { className: "excerpt", textContent: text }));
}

function dress(context) {
  if (!context) return;
  if (context.theme) root.style.colorScheme = context.theme;
  for (const [name, value] of Object.entries(context.styles?.variables ?? {})) if (value) root.style.setProperty(name, value);
}

const RECEIVED = {
  "ui/notifications/tool-input": (params) => (wanted = params.arguments ?? {}),
  "ui/notifications/tool-result": show,
  "ui/notifications/tool-cancelled": (params) => (main.textContent = `Cancelled. ${params.reason ?? ""}`),
  "ui/notifications/host-context-changed": dress,
};

addEventListener("message", (event) => {
  const message = event.data;
  if (event.source !== parent || message?.jsonrpc !== "2.0") return;
  if (message.method && message.id !== undefined) send({ id: message.id, result: {} });
  else if (message.method) RECEIVED[message.method]?.(message.params ?? {});
  else if (waiting.has(message.id)) {
    const { resolve, reject } = waiting.get(message.id);
    waiting.delete(message.id);
    if (message.error) reject(new Error(message.error.message));
    else resolve(message.result);
  }
});

function call(name, values) {
  return request("tools/call", { name, arguments: values });
}

document.addEventListener("click", async (event) => {
  const target = event.target.closest("[data-read], [data-call], [data-back]");
  if (!target) return;
  if ("back" in target.dataset) {
    opened.hidden = true;
    main.hidden = false;
    return;
  }
  target.disabled = true;
  try {
    if (target.dataset.read) {
      const result = await call("read", { refs: [target.dataset.read] });
      document.querySelector("#opened-ref").textContent = target.dataset.read;
      document.querySelector("#opened-text").textContent = result.content.map((part) => part.text ?? "").join("\n");
      main.hidden = true;
      opened.hidden = false;
      opened.querySelector("[data-back]").focus();
    } else {
      const done = await call(target.dataset.call, JSON.parse(target.dataset.arguments));
      if (done.isError) show(done);
      else show(await call("memories", wanted));
    }
  } catch (error) {
    target.insertAdjacentText("afterend", ` ${error.message}`);
  }
  target.disabled = false;
});

new ResizeObserver(() =>
  send({
    method: "ui/notifications/size-changed",
    params: { width: Math.ceil(root.scrollWidth), height: Math.ceil(document.body.getBoundingClientRect().height) },
  }),
).observe(document.body);

request("ui/initialize", {
  protocolVersion: PROTOCOL,
  appInfo: { name: `kbhub ${root.dataset.view}`, version: root.dataset.version },
  appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
}).then((result) => {
  dress(result.hostContext);
  send({ method: "ui/notifications/initialized", params: {} });
});
