// Draws the graph that /graph/data describes: documents by folder, links, and what is near in meaning.
"use strict";

const GROUPS = 8; // colours: the folders with the most documents; the others are grey
const NEARLY_ALL = 0.75; // share of the documents in a folder, above which those below it have the colours
const LEVELS = 8; // of folders
const ROUNDS = 50; // of the layout; after them it hardly moves
const CELLS = 16; // of the layout's grid, along a side
const LONG = 32; // characters of a label; all of them are shown to who points at it
const HEIGHT = 18; // pixels of a label
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
  const folders = foldersOf(data.nodes.map((node) => node.ref)), groups = largest(folders);
  const graph = new graphology.Graph();
  const kept = `graph ${place.dataset.base} ${place.dataset.around}`;
  const places = placed(data.nodes.map((node) => node.ref), data.links, JSON.parse(localStorage.getItem(kept)) ?? {});
  data.nodes.forEach((node, at) =>
    graph.addNode(at, {
      x: places.x[at],
      y: places.y[at],
      label: node.label,
      ref: node.ref,
      size: 3 + Math.min(9, Math.sqrt(node.links)),
      color: colors[groups.indexOf(folders[at])] ?? grey,
    }),
  );
  const line = style.getPropertyValue("--line").trim() && color("graph-line");
  data.near.forEach(([from, to]) => graph.addEdge(from, to, { color: color("graph-near"), size: 0.4, near: true }));
  data.links.forEach(([from, to]) => graph.hasEdge(from, to) || graph.addEdge(from, to, { color: line, size: 0.8 }));
  let hovered = null, labels = []; // of this picture
  const sigma = new Sigma(graph, place, {
    labelColor: { color: style.color },
    labelFont: style.fontFamily,
    labelDensity: 3,
    defaultDrawNodeLabel: (context, node, settings) => node.label && labels.push([context, node, settings]),
    labelRenderedSizeThreshold: data.nodes.length < 60 ? 0 : 5,
    defaultEdgeColor: line,
    hideEdgesOnMove: data.links.length + data.near.length > MANY_EDGES,
    nodeReducer: (at, node) => {
      if (hovered === null) return node;
      return at === hovered || graph.areNeighbors(at, hovered) ? { ...node, forceLabel: true } : { ...node, color: line, label: "" };
    },
    edgeReducer: (edge, shown) => (hovered === null || graph.hasExtremity(edge, hovered) ? shown : { ...shown, hidden: true }),
  });
  sigma.on("beforeRender", () => { labels = []; });
  sigma.on("afterRender", () => write(labels, place, style.backgroundColor));
  sigma.refresh({ skipIndexation: true }); // with these
  sigma.on("enterNode", ({ node }) => { hovered = node; place.classList.add("pointing"); sigma.refresh({ skipIndexation: true }); });
  sigma.on("leaveNode", () => { hovered = null; place.classList.remove("pointing"); sigma.refresh({ skipIndexation: true }); });
  sigma.on("clickNode", ({ node }) => { location.href = `/read?ref=${encodeURIComponent(graph.getNodeAttribute(node, "ref"))}`; });
  const legend = document.querySelector("#graph-groups");
  groups.forEach((name, number) => {
    const item = document.createElement("li");
    const dot = document.createElement("span");
    dot.className = `dot group-${number}`;
    item.append(dot, name.split("/").slice(-2).join("/"));
    item.title = name;
    legend.append(item);
  });
  place.dataset.drawn = String(graph.order);
  const drawn = graph.mapNodes((_, { ref, x, y }) => [ref, [x, y]]);
  try {
    localStorage.setItem(kept, JSON.stringify(Object.fromEntries(drawn)));
  } catch {
    localStorage.clear(); // it is full; the next picture starts anew
  }
  note.textContent = "Drag to move, scroll to zoom, click to open.";
}

// The folder of each ref, with its base; below a folder that has nearly all.
function foldersOf(refs) {
  let folders = refs;
  for (let depth = 1; depth <= LEVELS; depth++) {
    folders = refs.map((ref) => {
      const [base, path] = ref.includes("@") ? ref.split(/@(.*)/, 2) : ["", ref];
      return [base, ...path.split("/").slice(0, -1).slice(0, depth)].filter(Boolean).join("/");
    });
    const [first] = largest(folders);
    if (folders.filter((folder) => folder === first).length <= NEARLY_ALL * refs.length) break;
  }
  return folders;
}

// The names that occur most, but for the empty one.
function largest(names) {
  const counts = new Map();
  names.filter(Boolean).forEach((name) => counts.set(name, (counts.get(name) ?? 0) + 1));
  return [...counts.keys()].sort((one, other) => counts.get(other) - counts.get(one)).slice(0, GROUPS);
}

// Writes labels where there is room, those of the largest nodes first, and rather beside a node than across another.
function write(labels, place, ground) {
  const taken = [], apart = (one, other) => Math.abs(one.y - other.y) > HEIGHT || one.x > other.x + other.width || other.x > one.x + one.width;
  const nodes = labels.map(([, { x, y, size }]) => ({ x: x - size, y, width: 2 * size }));
  labels.sort(([, one], [, other]) => other.size - one.size);
  for (const [context, node, { labelSize, labelWeight, labelFont, labelColor }] of labels) {
    context.font = `${labelWeight} ${labelSize}px ${labelFont}`;
    const text = node.label.length > LONG ? `${node.label.slice(0, LONG)}…` : node.label;
    const width = context.measureText(text).width, beside = node.size + 4, { y } = node;
    const free = [node.x + beside, node.x - beside - width]
      .map((x) => ({ x, y, width }))
      .filter((spot) => spot.x > 0 && spot.x + width < place.clientWidth && taken.every((other) => apart(spot, other)));
    const spot = free.find((one) => nodes.every((other) => apart(one, other))) ?? free[0];
    if (!spot) continue;
    taken.push(spot);
    Object.assign(context, { strokeStyle: ground, lineWidth: 4, lineJoin: "round", fillStyle: labelColor.color });
    context.strokeText(text, spot.x, y + labelSize / 3);
    context.fillText(text, spot.x, y + labelSize / 3);
  }
}

// Places nodes as Fruchterman and Reingold do ("Graph Drawing by Force-directed Placement", 1991): links attract, all
// repel, with less and less force. They start on a spiral, in the order of their paths, so a picture is the same again.
// If most were drawn before, those stay where they were, and the others find their places among them.
function placed(refs, links, kept) {
  const count = refs.length, x = new Float64Array(count), y = new Float64Array(count);
  const distance = 1.6 / Math.sqrt(count);
  const degree = new Uint32Array(count);
  links.flat().forEach((at) => degree[at]++);
  const known = refs.map((ref) => kept[ref]), still = known.filter(Boolean).length > count / 2;
  for (let at = 0; at < count; at++) {
    const radius = 0.2 + 0.8 * ((at * 0.618034) % 1);
    x[at] = radius * Math.cos((2 * Math.PI * at) / count);
    y[at] = radius * Math.sin((2 * Math.PI * at) / count);
    if (still && known[at]) [x[at], y[at]] = known[at];
  }
  const sides = [x, y].map((all) => all.filter((_, at) => known[at])).map((all) => [Math.min(...all), Math.max(...all)]);
  for (let round = 0; round < ROUNDS; round++) {
    const [dx, dy] = repelled(x, y, distance);
    for (const [from, to] of links) {
      // Less, where many links end, else the middle of a site is a clot.
      const right = x[from] - x[to], up = y[from] - y[to], force = Math.hypot(right, up) / distance / Math.sqrt(Math.max(degree[from], degree[to]));
      dx[from] -= right * force; dy[from] -= up * force;
      dx[to] += right * force; dy[to] += up * force;
    }
    for (let at = 0; at < count; at++) {
      if (still && known[at]) continue;
      const right = dx[at] - 0.6 * x[at], up = dy[at] - 0.6 * y[at], length = Math.hypot(right, up) || 1;
      const step = Math.min(length, 0.15 * (1 - round / ROUNDS)) / length;
      x[at] += right * step; y[at] += up * step;
    }
  }
  if (still) [x, y].forEach((all, axis) => all.forEach((value, at) => { all[at] = Math.max(sides[axis][0], Math.min(sides[axis][1], value)); }));
  return { x, y };
}

// How far each node is pushed by all others: those of a cell of a grid from their middle, as in the Barnes-Hut method.
function repelled(x, y, distance) {
  const low = [Math.min(...x), Math.min(...y)];
  const side = Math.max(Math.max(...x) - low[0], Math.max(...y) - low[1], 1e-9) / CELLS;
  const cells = new Map();
  const cellOf = Array.from(x, (_, at) => Math.floor((x[at] - low[0]) / side) * (CELLS + 1) + Math.floor((y[at] - low[1]) / side));
  cellOf.forEach((key, at) => {
    const cell = cells.get(key) || { mass: 0, x: 0, y: 0 };
    cells.set(key, { mass: cell.mass + 1, x: cell.x + x[at], y: cell.y + y[at] });
  });
  const dx = new Float64Array(x.length), dy = new Float64Array(x.length);
  for (const [key, cell] of cells) {
    for (let at = 0; at < x.length; at++) {
      const right = x[at] - cell.x / cell.mass, up = y[at] - cell.y / cell.mass;
      const mass = cell.mass - (cellOf[at] === key); // nothing repels itself
      const weight = (mass * distance ** 2) / Math.max(right ** 2 + up ** 2, (distance / 4) ** 2);
      dx[at] += right * weight; dy[at] += up * weight;
    }
  }
  return [dx, dy];
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
