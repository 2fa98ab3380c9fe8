"use strict";
// The colours of Okabe and Ito, safe for colour-blind readers; groups differ in shape as well.
const PALETTE = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442"];
const SHAPES = { flat: ["circle", "square", "diamond", "cross", "x"], solid: ["circle", "square", "diamond", "circle-open", "square-open"] };
const STEPS = 32767, NO_VALUE = 255, LEVELS = 254;
const MISSING_COLOUR = "#8a8f98";
const EYE = { x: 0.95, y: 0.95, z: 0.6 };
const NEAREST = 8, OVER_CELLS = 1500, SVG_POINTS = 3000;
// How far cells reach beyond the visible part, relative to its size.
const BEYOND = 0.25;
const $ = id => document.getElementById(id);
const state = { view: "flat", method: 0, colour: 0, power: 0, draw: "cells", marked: null, space: "embedded" };
let report, arrays, Plot;

const bytes = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
const KINDS = { Uint8Array, Int16Array, Uint16Array, Uint32Array, Float32Array };
const array = found => found.array ??= new KINDS[found.kind](arrays.slice(...found.data)); // copied when first used
async function unpacked(id) {
  const stream = new Blob([bytes($(id).textContent)]).stream().pipeThrough(new DecompressionStream("gzip"));
  $(id).remove();
  return new Response(stream);
}
async function load() {
  const [library, data] = await Promise.all([unpacked("plotly"), unpacked("data")]);
  const script = document.createElement("script");
  script.textContent = await library.text();
  document.head.append(script);
  Plot = window.Plotly;
  const buffer = await data.arrayBuffer(), end = 4 + new DataView(buffer).getUint32(0, true);
  report = JSON.parse(new TextDecoder().decode(buffer.slice(4, end)));
  arrays = buffer.slice(end);
  report.drawn = array(report.drawn);
  report.solid = array(report.solid);
  [...report.columns, report.near.low, report.near.high].forEach(one => { one.values = array(one.values); });
  report.near.points = array(report.near.points);
}

// ---- text ------------------------------------------------------------------------------------------------------------
// The plotting library interprets some markup; ids and labels are plain text.
const plain = text => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/[\r\n\u2028\u2029]+/g, " ");
const digits = (value, n = 4) => value === null || !isFinite(value) ? "–" : String(Number(value.toPrecision(n)));
const idOf = point => report.ids ? report.ids[point] : String(report.drawn[point]);
const numberOf = (column, point) => column.scale * column.values[point];
function valueOf(column, point) {
  if (!column.labels) { const value = numberOf(column, point); return isNaN(value) ? report.missing : digits(value, 5); }
  const code = column.values[point];
  return code < 0 ? report.missing : column.labels[code];
}
function hoverOf(point) {
  const column = report.columns[state.colour];
  return `<b>${plain(idOf(point))}</b>` + (column ? `<br>${plain(column.name)}: ${plain(valueOf(column, point))}` : "");
}

// ---- looks -----------------------------------------------------------------------------------------------------------
const ink = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const isDark = () => document.documentElement.dataset.theme === "dark";
const colourOf = group => [...PALETTE, isDark() ? "#FFFFFF" : "#000000"][group % 8];
const shapeOf = (group, view = "flat") => SHAPES[view][group % 5];
const sizeOf = n => n > 10000 ? 3 : n > 3000 ? 4 : n > 600 ? 6 : 8;
const hasWebgl = (() => { try { return !!document.createElement("canvas").getContext("webgl"); } catch { return false; } })();
function look(more = {}) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 8, r: 8, t: 8, b: 8 },
    font: { family: "system-ui, sans-serif", size: 13, color: ink("ink") },
    hoverlabel: { bgcolor: ink("sheet"), bordercolor: ink("line"), font: { color: ink("ink"), size: 13 }, align: "left" },
    legend: { itemsizing: "constant", bgcolor: "rgba(0,0,0,0)" }, hovermode: "closest", ...more,
  };
}
const axis = more => ({ gridcolor: ink("grid"), linecolor: ink("line"), zerolinecolor: ink("grid"), tickcolor: ink("line"), automargin: true, ...more });
const blank = (more, extent = 1) => ({ visible: false, range: [-1.06 * extent, 1.06 * extent], zeroline: false, showgrid: false, ...more });
// The sample over cells may not extend as far as all points do.
const extents = units => units.map(values => report.methods[0].cells ? 1 : furthest(values));
const furthest = values => Math.max(0.02, values.reduce((most, value) => Math.max(most, Math.abs(value)), 0));
const quiet = { responsive: true, displayModeBar: false };
const settings = { responsive: true, displaylogo: false, scrollZoom: true, modeBarButtonsToRemove: ["lasso2d", "select2d", "hoverClosestCartesian", "hoverCompareCartesian"] };

// ---- points ----------------------------------------------------------------------------------------------------------
const unit = numbers => Float32Array.from(numbers, number => (number - STEPS - 1) / STEPS);
function frame(method, view, power) {
  const coordinates = report.methods[method][view][power];
  coordinates.units ||= coordinates.axes.map(found => unit(array(found)));
  return coordinates;
}
function pick(axes, which) { return axes.map(values => Float32Array.from(which, at => values[at])); }
// Indices of the points that are drawn.
const points = view => view === "solid" ? Array.from(report.solid) : Array.from(report.drawn, (_, at) => at);
// Of those in the visible part every step-th, since the order of rows may carry meaning.
function pointsOverCells([x, y]) {
  const part = visible(), inside = (value, [low, high]) => low <= value && value <= high;
  const all = points("flat").filter(at => !part || (inside(x[at], part[0]) && inside(y[at], part[1])));
  const step = Math.ceil(all.length / OVER_CELLS);
  return all.filter((_, at) => at % step === 0);
}
function groups(column, which, view) {
  if (!column) return [{ name: "points", marker: { color: ink("accent"), symbol: "circle" }, at: which.map((_, at) => at) }];
  const at = new Map();
  which.forEach((point, place) => {
    const value = column.values[point];
    const key = column.labels ? Math.min(value, report.mostColours) : isNaN(value) ? -1 : 0;
    if (!at.has(key)) at.set(key, []);
    at.get(key).push(place);
  });
  const absent = { color: MISSING_COLOUR, symbol: view === "solid" ? "diamond-open" : "x" };
  return [...at.keys()].sort((a, b) => (a < 0) - (b < 0) || a - b).map(key => {
    if (key < 0) return { name: report.missing, marker: absent, at: at.get(key) };
    if (!column.labels) return { name: column.name, numbers: true, at: at.get(key) };
    const others = key === report.mostColours && column.labels.length > key + 1;
    return { name: others ? "others" : column.labels[key], at: at.get(key),
      marker: others ? { color: MISSING_COLOUR, symbol: "circle" } : { color: colourOf(key), symbol: shapeOf(key, view) } };
  });
}
function scale(column) {
  const [low, high] = column.range;
  return { cmin: low, cmax: high > low ? high : low + 1, colorscale: "Viridis" };
}
function bar(column) { return { title: { text: plain(column.name), side: "right" }, thickness: 14, outlinewidth: 0, len: 0.8 }; }
function cloud(axes, which, view, more = {}) {
  const column = report.columns[state.colour];
  const type = view === "solid" ? "scatter3d" : which.length > SVG_POINTS && hasWebgl ? "scattergl" : "scatter";
  const size = sizeOf(which.length) * (view === "solid" ? 0.6 : 1);
  return groups(column, which, view).map(group => {
    const chosen = group.at.map(place => which[place]);
    const [x, y, z] = pick(axes, group.at);
    const marker = { size, opacity: 0.85, line: { width: 0 }, ...group.marker };
    if (group.numbers) {
      Object.assign(marker, scale(column), { color: chosen.map(point => numberOf(column, point)), symbol: "circle", showscale: more.showscale ?? true, colorbar: bar(column) });
    }
    return { type, mode: "markers", x, y, ...(z ? { z } : {}), name: plain(group.name) || "(empty)", marker, hoverinfo: "text",
      hovertext: chosen.map(hoverOf), customdata: chosen, showlegend: !group.numbers && !!column, ...more.trace };
  });
}
function marks(axes, which, view) {
  if (state.marked === null) return [];
  const place = new Map(which.map((point, at) => [point, at]));
  const ring = (list, name, size, width) => {
    const at = list.filter(point => place.has(point)).map(point => place.get(point));
    const [x, y, z] = pick(axes, at);
    return { type: view === "solid" ? "scatter3d" : "scatter", mode: "markers", x, y, ...(z ? { z } : {}), name, hoverinfo: "text",
      hovertext: at.map(one => hoverOf(which[one])), customdata: at.map(one => which[one]), showlegend: false,
      marker: { symbol: "circle-open", size, color: ink("bad"), line: { width, color: ink("bad") } } };
  };
  return [ring(nearest().map(one => one.point), "neighbours", 12, 2), ring([state.marked], "marked", 20, 4)];
}

// ---- cells -----------------------------------------------------------------------------------------------------------
// Ranges of both axes of the picture in the plane; null before it is drawn.
function visible() {
  const { xaxis, yaxis } = $("plot")._fullLayout ?? {};
  return state.view === "flat" && xaxis && yaxis ? [xaxis.range, yaxis.range] : null;
}
// Cells of a part of the picture: size to a side of the whole, from one column and row, with counts and levels.
function grid(method, part) {
  const found = report.methods[method].cells[state.power], { size, fine } = found;
  const counts = array(found.counts), levels = report.columns[state.colour] ? array(found.colours[state.colour]) : null;
  const coarse = { size, left: 0, bottom: 0, width: size, height: size, counts, levels };
  if (!part || !fine) return coarse;
  // As many cells along the shorter side of the visible part as the first picture has, when all of it is seen.
  const shorter = Math.min(...part.map(([low, high]) => high - low)), wanted = report.methods[0].cells[0].size * 2.2 / shorter;
  const level = Math.min(fine.bits, Math.floor(Math.log2(wanted)));
  return 2 ** level > size ? finer(fine, level, part, coarse) : coarse;
}
// The points of a cell are consecutive: the bits of both coordinates alternate in the number of a cell.
function finer(fine, level, part, coarse) {
  fine.places ??= places(array(fine.steps));
  const [x, y] = fine.places, shift = fine.bits - level, size = 2 ** level, up = shift + level - Math.log2(coarse.size);
  const [[left, right], [bottom, top]] = part.map(([low, high]) => [low - BEYOND * (high - low), high + BEYOND * (high - low)]
    .map(value => Math.min(size - 1, Math.max(0, Math.floor((value + 1) / 2 * size)))));
  const width = right - left + 1, height = top - bottom + 1;
  const counts = new Uint32Array(width * height), levels = coarse.levels && new Uint8Array(width * height);
  const column = report.columns[state.colour], values = column && fine.colours[state.colour] && array(fine.colours[state.colour]);
  for (let start = 0, end = 0; start < x.length; start = end) {
    const across = x[start] >> shift, along = y[start] >> shift;
    while (end < x.length && x[end] >> shift === across && y[end] >> shift === along) end++;
    if (across < left || across > right || along < bottom || along > top) continue;
    const cell = (along - bottom) * width + across - left;
    counts[cell] = end - start;
    if (values) levels[cell] = column.labels ? mostCommon(values, start, end) : mean(values, start, end);
    else if (column) levels[cell] = coarse.levels[(y[start] >> up) * coarse.size + (x[start] >> up)];
  }
  return { size, left, bottom, width, height, counts, levels };
}
// Coordinates of the points, from the four bytes of the differences between the numbers of their cells.
function places(steps) {
  const n = steps.length / 4, x = new Uint16Array(n), y = new Uint16Array(n);
  for (let at = 0, code = 0; at < n; at++) {
    code += steps[at] + (steps[n + at] << 8) + (steps[2 * n + at] << 16) + (steps[3 * n + at] << 24);
    x[at] = everySecondBit(code); y[at] = everySecondBit(code >>> 1);
  }
  return [x, y];
}
function everySecondBit(code) {
  let bits = code & 0x55555555;
  for (const [shift, mask] of [[1, 0x33333333], [2, 0x0f0f0f0f], [4, 0x00ff00ff], [8, 0x0000ffff]]) bits = (bits | bits >>> shift) & mask;
  return bits;
}
function mean(values, start, end) {
  let sum = 0, known = 0;
  for (let at = start; at < end; at++) if (values[at] !== NO_VALUE) { sum += values[at]; known++; }
  return known ? Math.round(sum / known) : NO_VALUE;
}
function mostCommon(values, start, end) {
  if (end - start === 1) return values[start];
  const counts = new Uint32Array(NO_VALUE);
  for (let at = start; at < end; at++) if (values[at] !== NO_VALUE) counts[values[at]]++;
  const most = counts.reduce((best, count, value) => count > counts[best] ? value : best, 0);
  return counts[most] ? most : NO_VALUE;
}
function cells(method, part, more = {}) {
  const { size, left, bottom, width, height, counts, levels } = grid(method, part), column = report.columns[state.colour];
  const z = [], text = [];
  for (let row = 0; row < height; row++) {
    const values = new Array(width).fill(null), words = new Array(width).fill("");
    for (let at = 0; at < width; at++) {
      const cell = row * width + at, level = levels ? levels[cell] : 0;
      if (!counts[cell]) continue;
      words[at] = counts[cell] === 1 ? "1 point" : `${counts[cell].toLocaleString("en")} points`;
      if (!column) { values[at] = Math.log10(counts[cell]); continue; }
      if (level === NO_VALUE) { words[at] += `<br>${plain(column.name)}: ${report.missing}`; continue; }
      if (!column.labels) {
        const mean = column.range[0] + (column.range[1] - column.range[0]) * (level - 1) / (LEVELS - 1);
        values[at] = mean; words[at] += `<br>mean ${plain(column.name)}: ${digits(mean, 3)}`;
      } else {
        values[at] = level - 1; words[at] += `<br>most common: ${plain(groupName(column, level - 1))}`;
      }
    }
    z.push(values); text.push(words);
  }
  const step = 2 / size;
  const paint = !column ? { colorscale: "Viridis", colorbar: { title: { text: "points (log10)", side: "right" }, thickness: 14, outlinewidth: 0, len: 0.8 } }
    : !column.labels ? { zmin: column.range[0], zmax: column.range[1] > column.range[0] ? column.range[1] : column.range[0] + 1, colorscale: "Viridis", colorbar: bar(column) }
      : discrete(column);
  return { type: "heatmap", x0: -1 + (left + 0.5) * step, dx: step, y0: -1 + (bottom + 0.5) * step, dy: step, z, text, hoverinfo: "text", hoverongaps: false, ...paint, ...more };
}
const groupName = (column, code) => code >= report.mostColours && column.labels.length > report.mostColours + 1 ? "others" : column.labels[code];
function discrete(column) {
  const n = Math.min(column.labels.length, report.mostColours + 1), colorscale = [];
  const paint = code => groupName(column, code) === "others" ? MISSING_COLOUR : colourOf(code);
  for (let code = 0; code < n; code++) colorscale.push([code / n, paint(code)], [(code + 1) / n, paint(code)]);
  const tickvals = Array.from({ length: n }, (_, code) => code);
  return { zmin: -0.5, zmax: n - 0.5, colorscale, colorbar: { ...bar(column), tickvals, ticktext: tickvals.map(code => plain(groupName(column, code))) } };
}
const inCells = () => !!report.methods[0].cells && state.view === "flat" && state.draw === "cells";

// ---- the large picture -----------------------------------------------------------------------------------------------
function drawPicture(kept) { // in a layout that is kept, or a new one
  const { view, method, power } = state, many = inCells();
  const { units } = frame(method, view, power), which = many ? pointsOverCells(units) : points(view);
  // A frame in space holds only the points drawn there.
  const axes = view === "solid" ? units : many ? pick(units, which) : units;
  const over = { showscale: !many, trace: many ? { showlegend: false, marker: { size: 4, color: "rgba(0,0,0,0)", line: { width: 1, color: ink("ink") } }, opacity: 0.35 } : {} };
  const data = [...(many ? [cells(method, visible())] : []), ...cloud(axes, which, view, over), ...marks(...markable(view, units, which, axes), view)];
  const scene = { xaxis: blank(), yaxis: blank(), zaxis: blank(), aspectmode: "cube", uirevision: "scene", camera: { eye: EYE } };
  const shape = view === "solid" ? { scene, uirevision: "solid" }
    : { xaxis: blank({}, extents(units)[0]), yaxis: blank({ scaleanchor: "x" }, extents(units)[1]), dragmode: "pan", uirevision: "flat" };
  return Plot.react("plot", data, kept ?? look({ ...shape, legend: { itemsizing: "constant", y: 1, x: 1.01, xanchor: "left", title: { text: plain(report.columns[state.colour]?.name ?? "") } } }), settings);
}
// Marks may be on points that are not among the few over cells.
function markable(view, units, which, axes) { return view === "flat" ? [units, points("flat")] : [axes, which]; }

// ---- neighbours ------------------------------------------------------------------------------------------------------
function nearest() {
  const view = state.view, which = points(view), { units, radius } = frame(state.method, view, state.power);
  const here = which.indexOf(state.marked);
  if (here < 0) return [];
  const squared = which.map((point, at) => ({ point, distance: units.reduce((sum, values) => sum + (values[at] - values[here]) ** 2, 0) }));
  return squared.filter(one => one.point !== state.marked).sort((a, b) => a.distance - b.distance).slice(0, NEAREST)
    .map(one => ({ point: one.point, distance: radius * Math.sqrt(one.distance) }));
}
function interval(a, b) {
  const { k, points: list, low, high } = report.near;
  for (const [from, to] of [[a, b], [b, a]]) {
    for (let at = from * k; at < (from + 1) * k; at++) {
      if (list[at] === to) return [low, high].map(end => end.scale * end.values[at]);
    }
  }
  return null;
}
function element(tag, text, more = {}) { return Object.assign(document.createElement(tag), { textContent: text, ...more }); }
function mark(point) {
  state.marked = point;
  listNeighbours();
  drawPicture();
}
function listNeighbours() {
  const box = $("found");
  box.replaceChildren();
  if (state.marked === null) return;
  const column = report.columns[state.colour];
  box.append(element("p", `Marked: ${idOf(state.marked)}` + (column ? `, ${column.name}: ${valueOf(column, state.marked)}` : "")));
  const found = nearest();
  if (!found.length) { box.append(element("p", "This point is not in the sample that is drawn in 3-D; its neighbours are listed in 2-D.")); return; }
  const table = document.createElement("table"), body = document.createElement("tbody"), head = document.createElement("tr");
  table.append(element("caption", "Nearest in this picture"), document.createElement("thead"), body);
  table.tHead.append(head);
  ["neighbour", "distance in this picture", `diffusion distance at time ${report.filters[report.chosen]}, 95% interval`].forEach((title, at) =>
    head.append(element("th", title, { scope: "col", className: at ? "number" : "" })));
  for (const one of found) {
    const row = document.createElement("tr"), name = document.createElement("td"), sure = interval(state.marked, one.point);
    name.append(element("button", idOf(one.point), { type: "button", className: "link", onclick: () => mark(one.point) }));
    row.append(name, element("td", digits(one.distance, 3), { className: "number" }),
      element("td", sure ? `${digits(sure[0])} to ${digits(sure[1])}` : "not kept", { className: "number" }));
    body.append(row);
  }
  box.append(table);
}
function search(wanted) {
  const count = report.drawn.length, text = wanted.trim(), low = text.toLowerCase(), box = $("found");
  if (!text) return;
  const close = [];
  for (let point = 0; point < count; point++) {
    const id = idOf(point);
    if (id === text) { mark(point); return; }
    if (close.length < 12 && id.toLowerCase().includes(low)) close.push(point);
  }
  if (close.length === 1) { mark(close[0]); return; }
  const sampled = report.drawn.length < report.n ? " It may be among the points that are not in the sample." : "";
  box.replaceChildren(element("p", close.length ? `No point is called “${text}”. Do you mean one of these?` : `No point is called “${text}”.${sampled}`));
  const list = document.createElement("p");
  close.forEach(point => list.append(element("button", idOf(point), { type: "button", className: "link", onclick: () => mark(point) }), " "));
  box.append(list);
}

// ---- the other pictures ----------------------------------------------------------------------------------------------
function drawLineup() {
  const box = $("lineup"), n = report.methods.length, stacked = box.clientWidth < 620, many = !!report.methods[0].cells;
  box.style.height = stacked ? `${21 * n}rem` : "26rem";
  const data = [], layout = {}, annotations = [];
  const all = points("flat");
  report.methods.forEach((method, at) => {
    const suffix = at ? at + 1 : "", gap = stacked ? 0.03 : 0.02, from = at / n, to = (at + 1) / n;
    const x = stacked ? [0, 1] : [from + gap / 2, to - gap / 2], y = stacked ? [1 - to, 1 - from - 0.25 / n] : [0, 0.86];
    const trace = { xaxis: `x${suffix}`, yaxis: `y${suffix}`, showlegend: false };
    if (many) data.push(cells(at, null, { ...trace, showscale: false }));
    else data.push(...cloud(frame(at, "flat", state.power).units, all, "flat", { showscale: false, trace }));
    const extent = extents(frame(at, "flat", state.power).units);
    layout[`xaxis${suffix}`] = blank({ domain: x, anchor: `y${suffix}` }, extent[0]);
    layout[`yaxis${suffix}`] = blank({ domain: y, anchor: `x${suffix}`, scaleanchor: `x${suffix}` }, extent[1]);
    const figures = report.figures[at];
    const words = state.power === report.chosen ? `log L ${figures.log}, central ${figures.central}` : `central log L ${digits(method.distortion[state.power], 3)}`;
    annotations.push({ text: `<b>${method.name}</b><br>${words}`, showarrow: false, xref: "paper", yref: "paper", x: (x[0] + x[1]) / 2, y: y[1], xanchor: "center", yanchor: "bottom" });
  });
  data.forEach(trace => { if (trace.marker && trace.type !== "heatmap") trace.marker.size = Math.max(2.5, trace.marker.size * 0.7); });
  return Plot.react("lineup", data, look({ ...layout, annotations, dragmode: "pan", uirevision: `lineup${stacked}` }), { ...settings, scrollZoom: false });
}
function drawDistances() {
  const { names, exact, low, high } = report.pairs, drawn = report.pairs[state.space], n = exact.length;
  const order = exact.map((_, at) => at).sort((a, b) => exact[a] - exact[b]);
  const bins = Math.max(1, Math.min(30, Math.floor(n / 12))), middle = list => list.sort((a, b) => a - b)[list.length >> 1];
  const x = [], bottom = [], top = [];
  for (let bin = 0; bin < bins; bin++) {
    const part = order.slice(Math.floor(bin * n / bins), Math.floor((bin + 1) * n / bins));
    x.push(middle(part.map(at => exact[at]))); bottom.push(middle(part.map(at => low[at]))); top.push(middle(part.map(at => high[at])));
  }
  const outside = at => drawn[at] < low[at] || drawn[at] > high[at];
  const dots = (name, kept, colour, symbol) => {
    const at = order.filter(kept);
    return { type: "scatter", mode: "markers", name, x: at.map(i => exact[i]), y: at.map(i => drawn[i]), hoverinfo: "text",
      marker: { size: 5, color: colour, symbol, opacity: 0.7 },
      hovertext: at.map(i => `<b>${plain(names[i][0])}</b> – <b>${plain(names[i][1])}</b><br>diffusion distance ${digits(exact[i])}<br>here ${digits(drawn[i])}<br>95% interval ${digits(low[i])} to ${digits(high[i])}`) };
  };
  const last = exact[order[n - 1]], edge = { type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
  const data = [
    { ...edge, x, y: bottom, showlegend: false },
    { ...edge, x, y: top, fill: "tonexty", fillcolor: isDark() ? "rgba(86,180,233,.28)" : "rgba(0,114,178,.18)", name: "95% interval (median)" },
    { type: "scatter", mode: "lines", name: "equal", x: [0, last], y: [0, last], line: { color: ink("soft"), width: 1, dash: "dash" }, hoverinfo: "skip" },
    dots("within its interval", at => !outside(at), isDark() ? "#56B4E9" : "#0072B2", "circle"),
    dots("outside of its interval", outside, isDark() ? "#E69F00" : "#D55E00", "x"),
  ];
  return Plot.react("distances", data, look({ margin: { l: 60, r: 12, t: 8, b: 48 }, xaxis: axis({ title: { text: "diffusion distance, exact" }, rangemode: "tozero" }),
    yaxis: axis({ title: { text: state.space === "flat" ? "distance in the plane" : "distance in the embedding" }, rangemode: "tozero" }), legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 } }), quiet);
}
function drawCurves() {
  const { powers, chosen, curves, methods } = report, dashes = ["solid", "dash", "dot"], config = quiet;
  const line = (name, y, at, x = powers) => ({ type: "scatter", mode: "lines+markers", name, x, y, line: { dash: dashes[at % 3], color: colourOf(at) }, marker: { symbol: shapeOf(at), size: 7 } });
  // No line if the embedding keeps all times.
  const here = chosen >= powers.length ? [] : [{ type: "line", x0: powers[chosen], x1: powers[chosen], y0: 0, y1: 1, yref: "paper", line: { color: ink("soft"), dash: "dash", width: 1 } }];
  const time = axis({ type: "log", title: { text: "diffusion time" }, tickvals: powers.filter((_, at) => at % 2 === 0), ticktext: powers.filter((_, at) => at % 2 === 0).map(power => digits(power)) });
  const shape = { margin: { l: 52, r: 10, t: 8, b: 44 }, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 12 } } };
  return Promise.all([
    Plot.react("distortion", methods.map((method, at) => line(method.name, method.distortion.slice(0, powers.length), at)), look({ ...shape, xaxis: time, yaxis: axis({ title: { text: "central log L" }, rangemode: "tozero" }), shapes: here }), config),
    Plot.react("entropy", [line("entropy", curves.entropy, 0), line("effective dimension", curves.effective_dimension, 1), line("spectral dimension", curves.spectral_dimension, 2)],
      look({ ...shape, xaxis: time, yaxis: axis({ type: "log", dtick: 1, range: logRange([...curves.entropy, ...curves.effective_dimension, ...curves.spectral_dimension]) }), shapes: here }), config),
    Plot.react("spectrum", [
      { type: "scatter", mode: "lines", name: "all, estimated", x: curves.values, y: curves.counts.map(count => count > 0.5 ? count : null), line: { color: colourOf(0) } },
      { type: "scatter", mode: "markers", name: "leading", x: curves.eigenvalues, y: curves.eigenvalues.map((_, at) => at + 1), marker: { symbol: "x", color: colourOf(3), size: 7 } },
    ], look({ ...shape, xaxis: axis({ type: "log", title: { text: "eigenvalue λ" }, dtick: 1 }), yaxis: axis({ type: "log", title: { text: "eigenvalues ≥ λ" }, dtick: 1 }) }), config),
  ]);
}
// From a tenth, below which a dimension says nothing, to the largest.
const logRange = values => [-1, Math.log10(Math.max(2, ...values)) + 0.1];
const drawAll = () => Promise.all([drawPicture(), drawLineup(), drawDistances(), drawCurves()]);

// ---- controls --------------------------------------------------------------------------------------------------------
function showPower() {
  const words = `${report.filters[state.power]}${state.power === report.chosen ? " (chosen)" : ""}`;
  $("power-value").textContent = words;
  $("power").setAttribute("aria-valuetext", words);
}
function setTheme(choice) {
  const dark = choice ? choice === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}
function option(value, text) { return element("option", text, { value }); }
let waiting = false;
function soon() { // draw once for many movements of the slider
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; listNeighbours(); drawPicture(); drawLineup(); });
}
function wire() {
  report.columns.forEach((column, at) => $("colour").append(option(at, column.name)));
  $("colour").append(option(-1, report.methods[0].cells ? "(number of points)" : "(one colour)"));
  report.methods.forEach((method, at) => $("method").append(option(at, method.name)));
  if (report.components === 2) $("space-label").hidden = true;
  $("space").append(option("embedded", `in all ${report.components} components`), option("flat", "in the plane"));
  $("draw-label").hidden = !report.methods[0].cells;
  state.colour = report.columns.length ? 0 : -1;
  $("colour").value = state.colour;
  $("power").max = report.filters.length - 1;
  $("power").value = state.power = report.chosen;
  $("power").disabled = report.filters.length < 2;
  showPower();
  const solid = () => { document.querySelector("input[value=solid]").disabled = !report.methods[state.method].solid || !hasWebgl; };
  solid();
  if (!hasWebgl) $("status").textContent = "This browser has no WebGL, which pictures in 3-D need.";
  document.querySelectorAll("input[name=view]").forEach(input => input.addEventListener("change", () => { state.view = input.value; $("draw").disabled = state.view === "solid"; Plot.purge("plot"); soon(); watch(); }));
  $("method").addEventListener("change", event => {
    state.method = Number(event.target.value);
    solid();
    if (state.view === "solid" && !report.methods[state.method].solid) document.querySelector("input[value=flat]").click();
    soon();
  });
  $("colour").addEventListener("change", event => { state.colour = Number(event.target.value); soon(); });
  $("draw").addEventListener("change", event => { state.draw = event.target.value; soon(); });
  $("space").addEventListener("change", event => { state.space = event.target.value; drawDistances(); });
  $("power").addEventListener("input", event => { state.power = Number(event.target.value); showPower(); soon(); });
  $("search").addEventListener("submit", event => { event.preventDefault(); search($("search-id").value); });
  $("forget").addEventListener("click", () => { $("search-id").value = ""; mark(null); });
  $("theme").addEventListener("change", event => { setTheme(event.target.value); drawAll(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (!$("theme").value) { setTheme(""); drawAll(); } });
  let stacked = $("lineup").clientWidth < 620;
  addEventListener("resize", () => { const now = $("lineup").clientWidth < 620; if (now !== stacked) { stacked = now; drawLineup(); } });
  $("copy").addEventListener("click", async () => {
    try { await navigator.clipboard.writeText($("call").textContent); $("copied").textContent = "Copied."; } catch {
      getSelection().selectAllChildren($("call")); $("copied").textContent = "Selected; copy it with your keyboard.";
    }
  });
  $("plot").addEventListener("keydown", steer);
}
function watch() { // purging a plot takes its listeners with it
  requestAnimationFrame(() => {
    $("plot").on("plotly_click", event => { const point = event.points[0].customdata; if (typeof point === "number") mark(point); });
    $("plot").on("plotly_relayout", () => { if (inCells()) drawPicture($("plot").layout); }); // finer cells, and more points of the sample
  });
}
// Arrow keys, plus, minus and 0 in the picture.
function steer(event) {
  const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
  const zoom = { "+": 0.8, "=": 0.8, "-": 1.25 }[event.key], reset = event.key === "0";
  if (event.target !== $("plot") || !(move || zoom || reset)) return;
  event.preventDefault();
  const layout = $("plot")._fullLayout;
  if (state.view === "flat") {
    const wide = extents(frame(state.method, "flat", state.power).units).map(extent => [-1.06 * extent, 1.06 * extent]);
    if (reset) { Plot.relayout("plot", { "xaxis.range": wide[0], "yaxis.range": wide[1] }); return; }
    const [x, y] = [layout.xaxis.range, layout.yaxis.range].map((range, at) => {
      const half = (range[1] - range[0]) / 2, centre = (range[0] + range[1]) / 2 + (move ? 0.2 * half * move[at] : 0);
      return [centre - half * (zoom ?? 1), centre + half * (zoom ?? 1)];
    });
    Plot.relayout("plot", { "xaxis.range": x, "yaxis.range": y });
    return;
  }
  const { x, y, z } = layout.scene.camera.eye, round = Math.hypot(x, y, z) * (zoom ?? 1);
  const turn = Math.atan2(y, x) - (move ? 0.15 * move[0] : 0), rise = Math.max(-1.5, Math.min(1.5, Math.asin(z / Math.hypot(x, y, z)) + (move ? 0.15 * move[1] : 0)));
  const eye = reset ? EYE : { x: round * Math.cos(rise) * Math.cos(turn), y: round * Math.cos(rise) * Math.sin(turn), z: round * Math.sin(rise) };
  Plot.relayout("plot", { "scene.camera.eye": eye });
}

setTheme("");
load().then(async () => {
  $("status").textContent = "";
  wire();
  await drawAll();
  watch();
  document.body.dataset.ready = "yes";
}).catch(error => {
  $("status").textContent = `The pictures could not be drawn: ${error.message}. They need a browser of 2023 or later.`;
  throw error;
});
