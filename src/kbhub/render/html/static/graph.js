// Draws the graph that /graph/data describes: documents by folder or tag, links, and what is near in meaning.
"use strict";

const GROUPS = 8;
const MANY_EDGES = 2000; // more are left out while the picture moves, so that it moves without a graphics card, too

async function draw(place) {
  const note = document.querySelector("#graph-note");
  const values = new URLSearchParams({ ...place.dataset });
  const answer = await fetch(`/graph/data?${values}`);
  if (!answer.ok) {
    note.textContent = "Cannot load the graph.";
    return;
  }
  const data = await answer.json();
  const style = getComputedStyle(document.body);
  const color = (name) => colorOf(place, name);
  const colors = [...Array(GROUPS).keys()].map((number) => color(`group-${number}`));
  const grey = color("verdict-unjudged");
  const graph = new graphology.Graph();
  data.nodes.forEach((node, at) =>
    graph.addNode(at, {
      x: node.x,
      y: -node.y,
      label: node.label,
      ref: node.ref,
      size: 3 + Math.min(9, Math.sqrt(node.links)),
      color: node.group < 0 ? grey : colors[node.group],
    }),
  );
  const line = style.getPropertyValue("--line").trim() && color("graph-line");
  data.near.forEach(([from, to]) => graph.addEdge(from, to, { color: color("graph-near"), size: 0.4, near: true }));
  data.links.forEach(([from, to]) => graph.hasEdge(from, to) || graph.addEdge(from, to, { color: line, size: 0.8 }));
  let hovered = null;
  const sigma = new Sigma(graph, place, {
    labelColor: { color: style.color },
    labelFont: style.fontFamily,
    labelRenderedSizeThreshold: data.nodes.length < 60 ? 0 : 7,
    defaultEdgeColor: line,
    hideEdgesOnMove: data.links.length + data.near.length > MANY_EDGES,
    nodeReducer: (at, node) =>
      hovered === null || at === hovered || graph.areNeighbors(at, hovered) ? node : { ...node, color: line, label: "" },
    edgeReducer: (edge, shown) => (hovered === null || graph.hasExtremity(edge, hovered) ? shown : { ...shown, hidden: true }),
  });
  sigma.on("enterNode", ({ node }) => { hovered = node; place.classList.add("pointing"); sigma.refresh({ skipIndexation: true }); });
  sigma.on("leaveNode", () => { hovered = null; place.classList.remove("pointing"); sigma.refresh({ skipIndexation: true }); });
  sigma.on("clickNode", ({ node }) => { location.href = `/read?ref=${encodeURIComponent(graph.getNodeAttribute(node, "ref"))}`; });
  const legend = document.querySelector("#graph-groups");
  data.groups.forEach((name, number) => {
    const item = document.createElement("li");
    const dot = document.createElement("span");
    dot.className = `dot group-${number}`;
    item.append(dot, name);
    legend.append(item);
  });
  place.dataset.drawn = String(graph.order);
  note.textContent = "Drag to move, scroll to zoom, click to open.";
}

// sigma takes colours as hexadecimal or rgb(); the style sheet has pairs for light and dark.
function colorOf(place, name) {
  const probe = document.createElement("span");
  probe.className = name;
  place.append(probe);
  const found = getComputedStyle(probe).backgroundColor;
  probe.remove();
  return found;
}

const place = document.querySelector("#graph");
if (place) {
  draw(place).catch((error) => {
    document.querySelector("#graph-note").textContent = `The graph cannot be drawn here (${error.message}). The lists show the same data.`;
  });
}
