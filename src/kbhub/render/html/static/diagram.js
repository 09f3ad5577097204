// Draws one Mermaid diagram, whose text may be hostile, in a frame that has no origin and can ask for nothing.
"use strict";

const dark = matchMedia("(prefers-color-scheme: dark)");
const tell = (height) => parent.postMessage(height, "*");
let text = "";

async function draw() {
  mermaid.initialize({
    startOnLoad: false,
    securityLevel: "strict",
    htmlLabels: false,
    suppressErrorRendering: true,
    fontFamily: "system-ui, sans-serif",
    theme: dark.matches ? "dark" : "default",
    secure: ["secure", "securityLevel", "startOnLoad", "maxTextSize", "maxEdges", "suppressErrorRendering", "htmlLabels", "flowchart", "themeCSS"],
  });
  try {
    document.body.innerHTML = (await mermaid.render("diagram", text)).svg;
    const svg = document.querySelector("svg");
    svg.style.minWidth = `${svg.viewBox.baseVal.width * 0.7}px`; // smaller cannot be read
    for (const link of svg.querySelectorAll("a")) link.removeAttribute("xlink:href");
  } catch {
    tell(-1);
  }
}

addEventListener("message", async (event) => {
  if (event.source !== parent) return;
  text = event.data;
  await draw();
  const bar = () => innerHeight - document.documentElement.clientHeight;
  new ResizeObserver(() => tell(document.body.offsetHeight + bar())).observe(document.body);
});
dark.addEventListener("change", draw);
