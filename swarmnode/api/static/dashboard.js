"use strict";
/* The page, kept up to date: the server sends trees of plain values (tree.py), from which nodes are
   made one by one. HTML is never parsed here, so that no text can become anything but text; the
   page's policy (require-trusted-types-for) forbids it as well. */
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const DRAWN = new Set(["svg", "line", "polyline", "polygon", "circle", "rect", "text"]);
  const NAMES = new Set([
    ...DRAWN, "title", "div", "p", "span", "b", "i", "small", "strong", "code", "pre", "h1", "h3",
    "ul", "ol", "li", "dl", "dt", "dd", "article", "table", "caption", "thead", "tbody", "tr", "th",
    "td",
  ]);
  const ATTRIBUTES = new Set([
    "class", "title", "scope", "role", "tabindex", "aria-label", "aria-hidden", "viewBox",
    "preserveAspectRatio", "points", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "rx",
    "width", "height", "stroke-width",
  ]);
  const SILENT_MILLISECONDS = 40000;

  const named = (name, within) =>
    (DRAWN.has(name) || (name === "title" && within.namespaceURI === SVG)
      ? document.createElementNS(SVG, name) : document.createElement(name));

  /* Change `node` until it is what `tree` says, touching nothing that is so already: what has the
     focus, is scrolled or selected stays as it is. */
  function become(node, tree) {
    const [, attributes, children] = tree;
    for (const { name } of [...node.attributes]) {
      if (!(name in attributes)) node.removeAttribute(name);
    }
    for (const [name, value] of Object.entries(attributes)) {
      if (ATTRIBUTES.has(name) && node.getAttribute(name) !== value) node.setAttribute(name, value);
    }
    hold(node, children);
  }

  function hold(node, children) {
    children.forEach((child, at) => {
      const there = node.childNodes[at];
      if (typeof child === "string") {
        if (there && there.nodeType === Node.TEXT_NODE) {
          if (there.data !== child) there.data = child;
        } else put(node, document.createTextNode(child), there);
      } else if (there && there.nodeType === Node.ELEMENT_NODE && there.localName === child[0]) {
        become(there, child);
      } else if (NAMES.has(child[0])) {
        const made = named(child[0], node);
        become(made, child);
        put(node, made, there);
      }
    });
    while (node.childNodes.length > children.length) node.lastChild.remove();
  }

  function put(node, made, there) {
    if (there) there.replaceWith(made);
    else node.append(made);
  }

  /* The curves. */

  const REWARDS = [
    ["held_out", "held out", [], 2.5], ["local", "local", [], 1.5],
    ["training_set", "training set", [6, 4], 1.5],
  ];
  const holder = document.querySelector('[data-part="picture"]');
  let data = null;
  let chart = null;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const columns = (told) => [
    told.round, ...REWARDS.flatMap(([name]) => ["mean", "low", "high"].map((side) => told[`${name}/${side}`])),
  ];

  const percent = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));

  function draw() {
    if (chart) chart.destroy();
    chart = null;
    if (!data || data[0].length < 2 || !holder) return;
    holder.replaceChildren();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false } };
    const series = [{ label: "round", value: (_, round) => (round === null ? "–" : `${round}`) }];
    const bands = [];
    for (const [name, label, dash, width] of REWARDS) {
      const at = series.length;
      const stroke = colour(`--${name}`);
      series.push(
        { label, stroke, width, dash, spanGaps: true, points: { show: name === "held_out", size: 5, fill: stroke }, value: (_, value) => percent(value) },
        { stroke: "transparent", spanGaps: true, points: { show: false } },
        { stroke: "transparent", spanGaps: true, points: { show: false } },
      );
      bands.push({ series: [at + 2, at + 1], fill: colour(`--${name}-band`) });
    }
    chart = new uPlot({
      width: Math.max(260, holder.clientWidth), height: holder.clientWidth < 560 ? 220 : 300,
      series, bands, scales: { x: { time: false }, y: { range: (_, low, high) => [Math.max(0, low - 0.05), Math.min(1, high + 0.05)] } },
      axes: [{ ...axis }, { ...axis, size: 44, values: (_, ticks) => ticks.map((tick) => tick.toFixed(2)) }],
      cursor: { y: false, points: { size: 7 } }, legend: { live: true },
    }, data, holder);
    // Bands have lines without a name; the legend is about the others.
    chart.root.querySelectorAll(".u-series").forEach((row, at) => {
      if (at > 0 && (at - 1) % 3 !== 0) row.remove();
    });
    chart.root.setAttribute("role", "img");
    chart.root.setAttribute("aria-label", "The three rewards over the rounds");
  }

  function grow(told) {
    const added = columns(told);
    if (!data) return;
    // A round that was done again takes the place of what came of it first.
    let kept = data[0].length;
    while (kept && added[0].length && data[0][kept - 1] >= added[0][0]) kept -= 1;
    data = data.map((column, at) => [...column.slice(0, kept), ...added[at]]);
    if (chart) chart.setData(data);
    else draw();
  }

  let resized = 0;
  addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(draw, 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  /* The events. */

  const light = document.getElementById("live");
  const parts = new Map([...document.querySelectorAll("[data-part]")].map((each) => [each.dataset.part, each]));
  let source = null;
  let heard = 0;

  function say(text, state) {
    if (light.textContent !== text) light.textContent = text;
    light.className = state;
  }

  function atTheEnd(log) {
    return log && log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  }

  function take(told) {
    for (const [name, tree] of Object.entries(told)) {
      const part = parts.get(name);
      if (!part) {
        // A part that this page was not made with, such as that of a node with another mode.
        if (tree) location.reload();
        continue;
      }
      const log = part.querySelector("ol.log");
      const follows = !log || atTheEnd(log);
      hold(part, tree ? [tree] : []);
      if (name === "log" && follows) {
        const now = part.querySelector("ol.log");
        if (now) now.scrollTop = now.scrollHeight;
      }
    }
    const sentence = document.querySelector('[data-part="state"] h1');
    if (sentence) document.title = `${sentence.textContent} swarmnode`;
  }

  function listen() {
    if (source) source.close();
    source = new EventSource("events");
    const fresh = (use) => (event) => {
      heard = Date.now();
      say("live", "on");
      use(JSON.parse(event.data));
    };
    source.addEventListener("open", () => { heard = Date.now(); });
    source.addEventListener("history", fresh((told) => { data = columns(told); draw(); }));
    source.addEventListener("points", fresh(grow));
    source.addEventListener("part", fresh(take));
    source.addEventListener("still", fresh(() => {}));
    source.addEventListener("error", () => {
      say("the node does not answer; trying again", "off");
      // A browser gives up by itself where the answer was no stream.
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
    });
  }

  // A machine that slept, or a network that swallows everything, ends no connection.
  setInterval(() => { if (Date.now() - heard > SILENT_MILLISECONDS) listen(); }, SILENT_MILLISECONDS / 2);
  heard = Date.now();
  say("connecting", "");
  const first = parts.get("log") && parts.get("log").querySelector("ol.log");
  if (first) first.scrollTop = first.scrollHeight;
  listen();
})();
