"use strict";
// ---- constants -------------------------------------------------------------------------------------------------------
// Groups differ in shape as well as in colour.
const SHAPES = ["circle", "square", "diamond", "cross", "x"];
const OUTLINES = {
  circle: "M8 3a5 5 0 1 0 .01 0Z", square: "M3.5 3.5h9v9h-9Z", diamond: "M8 2l6 6-6 6-6-6Z", cross: "M6 2h4v4h4v4h-4v4h-4v-4h-4v-4h4Z",
  x: "M3.8 2 8 6.2 12.2 2 14 3.8 9.8 8l4.2 4.2-1.8 1.8L8 9.8 3.8 14 2 12.2 6.2 8 2 3.8Z",
};
// Viridis without its lightest colours on a light ground, and without its darkest on a dark one.
const SCALES = { light: ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58"], dark: ["#35608d", "#2a788e", "#21908d", "#22a884", "#43bf71", "#7ad151", "#bddf26", "#fde725"] };
// The least share of near neighbours for each word.
const TRUST = [["nearly all", "90% or more", 0.9], ["most", "half or more", 0.5], ["few", "less than half", 0.1], ["hardly any", "less than a tenth", 0]];
const MISSING = -1, NO_VALUE = 255, LEVELS = 254, WIDEST = 65535;
const EYE = { x: 0.95, y: 0.95, z: 0.6 };
const NEAREST = 5, OVER_CELLS = 1500, SVG_POINTS = 3000;
// How far cells reach beyond the visible part, relative to its size; cells along a side in which groups are counted for
// their labels, and the height of a label.
const BEYOND = 0.25, SPOTS = 24, LABEL = 20;
const $ = id => document.getElementById(id);
const root = document.documentElement;
const state = { view: "flat", method: 0, colour: 0, power: 0, draw: "cells", marked: null, space: "flat", labels: true, trust: false, only: new Set(), range: null, camera: EYE };
let report, arrays, Plot;

// ---- data ------------------------------------------------------------------------------------------------------------
// Base85 with ":" in place of "<".
function bytes(text) {
  const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;:=>?@^_`{|}~", codes = new Uint8Array(128);
  for (let at = 0; at < 85; at++) codes[letters.charCodeAt(at)] = at;
  const n = text.length, lacking = (5 - n % 5) % 5, words = new DataView(new ArrayBuffer((n + lacking) / 5 * 4));
  for (let at = 0; at < n; at += 5) {
    let word = 0;
    for (let digit = at; digit < at + 5; digit++) word = 85 * word + (digit < n ? codes[text.charCodeAt(digit)] : 84);
    words.setUint32(at / 5 * 4, word);
  }
  return new Uint8Array(words.buffer, 0, words.byteLength - lacking);
}
const KINDS = { Uint8Array, Int16Array, Uint16Array, Uint32Array, Float32Array };
// The first bytes of all numbers come first, then the second ones.
function unpackedArray(found) {
  const kind = KINDS[found.kind], data = arrays.subarray(...found.data), size = kind.BYTES_PER_ELEMENT, n = data.length / size;
  const whole = new Uint8Array(data.length);
  for (let byte = 0; byte < size; byte++) for (let at = 0; at < n; at++) whole[at * size + byte] = data[byte * n + at];
  return new kind(whole.buffer);
}
const array = found => found.array ??= unpackedArray(found);
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
  arrays = new Uint8Array(buffer, end);
  for (const name of ["drawn", "few"]) report[name] = Array.from(array(report[name]));
  report.every = report.drawn.map((_, at) => at);
  report.columns.forEach(one => { one.values = array(one.values); });
  report.trust.counts = array(report.trust.counts);
  report.trust.place = new Map((report.trust.every ? report.every : report.few).map((point, at) => [point, at]));
}

// ---- text ------------------------------------------------------------------------------------------------------------
// The plotting library interprets some markup; ids and labels are plain text.
const plain = text => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/[\r\n\u2028\u2029]+/g, " ");
const short = (text, most = 40) => text.length > most ? `${text.slice(0, most - 1)}…` : text;
const digits = (value, n = 4) => value === null || !isFinite(value) ? "–" : String(Number(value.toPrecision(n)));
const counted = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
const idOf = point => report.ids ? report.ids[point] : String(report.drawn[point]);
const numberOf = (column, point) => column.scale * column.values[point];
function valueOf(column, point) {
  if (!column.labels) { const value = numberOf(column, point); return isNaN(value) ? report.missing : digits(value); }
  const code = column.values[point];
  return code < 0 ? report.missing : column.labels[code];
}
function trustOf(point) {
  const at = report.trust.place.get(point);
  return at === undefined ? null : report.trust.counts[at];
}
const trustIn = point => `${trustOf(point)} of its ${counted(report.trust.k, "nearest neighbour")} in the picture ${trustOf(point) === 1 ? "is" : "are"} near in the data`;
function hoverOf(point, shaded) {
  const column = report.columns[state.colour];
  return `<b>${plain(short(idOf(point), 120))}</b>` + (column ? `<br>${plain(short(column.name))}: ${plain(short(valueOf(column, point), 120))}` : "") + (shaded ? `<br>${trustIn(point)}` : "");
}
function element(tag, text, more = {}, ...inside) {
  const found = Object.assign(document.createElement(tag), more);
  found.append(...(text ? [text] : []), ...inside);
  return found;
}

// ---- looks -----------------------------------------------------------------------------------------------------------
const ink = name => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
const isDark = () => matchMedia("screen and (prefers-color-scheme: dark)").matches && !root.classList.contains("printing");
const theme = () => isDark() ? "dark" : "light";
const colourOf = group => report.palette[theme()][group];
const shapeOf = group => SHAPES[group % 5];
const ramp = () => SCALES[theme()].map((colour, at, all) => [at / (all.length - 1), colour]);
const sizeOf = n => n > 10000 ? 3 : n > 3000 ? 4 : n > 600 ? 6 : 8;
const hasWebgl = (() => { try { return !!document.createElement("canvas").getContext("webgl"); } catch { return false; } })();
const isCoarse = matchMedia("(pointer: coarse)").matches;
function look(id, more = {}) {
  return {
    width: $(id).clientWidth, height: $(id).clientHeight, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 6, r: 6, t: 6, b: 6 },
    font: { family: "system-ui, sans-serif", size: 13, color: ink("ink") }, showlegend: false, hovermode: "closest",
    hoverlabel: { bgcolor: ink("sheet"), bordercolor: ink("edge"), font: { color: ink("ink"), size: 13 }, align: "left" }, ...more,
  };
}
const axis = more => ({ gridcolor: ink("grid"), linecolor: ink("edge"), zerolinecolor: ink("grid"), tickcolor: ink("edge"), automargin: true, fixedrange: true, ...more });
const blank = (more, extent = 1) => ({ visible: false, range: [-1.06 * extent, 1.06 * extent], zeroline: false, showgrid: false, ...more });
// The sample over cells may not extend as far as all points do.
const extents = axes => axes.map(values => report.methods[0].cells ? 1 : furthest(values));
const furthest = values => Math.max(0.02, values.reduce((most, value) => Math.max(most, Math.abs(value)), 0));
const quiet = { displayModeBar: false }, settings = { displayModeBar: false, scrollZoom: true };

// ---- points ----------------------------------------------------------------------------------------------------------
function units(coordinates) {
  return coordinates.units ??= coordinates.axes.map(found => Float32Array.from(array(found), number => (number - coordinates.steps - 1) / coordinates.steps));
}
const pick = (axes, which) => axes.map(values => Float32Array.from(which, at => values[at]));
// Whether points are shaded by trust, which is measured in one picture.
const isMeasured = () => state.view === "flat" && state.method === 0 && state.power === report.chosen;
const isShaded = () => state.trust && isMeasured();
// The points of a method in a view: which they are, and their coordinates between -1 and 1.
function cloud(method, view, power) {
  const found = report.methods[method], coordinates = view === "solid" ? found.solid : found.flat[power], axes = units(coordinates);
  return { which: axes[0].length === report.drawn.length ? report.every : report.few, axes, radius: coordinates.radius };
}
function part({ which, axes, radius }, places) { return { which: places.map(at => which[at]), axes: pick(axes, places), radius }; }
// What is drawn in the large picture: everything, or the points whose trust is known.
function shown() {
  const found = cloud(state.method, state.view, state.power);
  return isShaded() && !report.trust.every ? part(found, report.few) : found;
}
// Of the points in the visible part every step-th, since the order of rows may carry meaning.
function pointsOverCells(found) {
  const area = state.range, inside = (value, [low, high]) => low <= value && value <= high, [x, y] = found.axes;
  const all = report.every.filter(at => !area || (inside(x[at], area[0]) && inside(y[at], area[1])));
  const step = Math.ceil(all.length / OVER_CELLS);
  return part(found, all.filter((_, at) => at % step === 0));
}

// ---- colours ---------------------------------------------------------------------------------------------------------
// The group of a point: its index, `mostColours` for those without a colour of their own, or MISSING.
const groupOf = (column, point) => Math.min(column.values[point], report.mostColours);
function groupName(column, key) {
  if (key === MISSING) return report.missing;
  return key < report.mostColours ? column.labels[key] || "(empty)" : `other (${counted(column.groups - key, "group")})`;
}
function groupMarker(key) {
  if (key === MISSING) return { color: ink("other"), symbol: "x" };
  return key < report.mostColours ? { color: colourOf(key), symbol: shapeOf(key) } : { color: ink("other"), symbol: "circle" };
}
const trustLevel = point => TRUST.findIndex(([, , least]) => trustOf(point) >= least * report.trust.k);
// Points by their colour, in the order of drawing: what is grey lies below.
function layers(which, shaded) {
  const column = report.columns[state.colour], found = new Map();
  const keyOf = shaded ? trustLevel : !column ? () => 0 : column.labels ? point => groupOf(column, point) : point => isNaN(column.values[point]) ? MISSING : 0;
  which.forEach((point, place) => {
    const key = keyOf(point);
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(place);
  });
  const layer = (key, at) => {
    if (shaded) return { name: TRUST[key][0], at, marker: { color: ink(`trust-${3 - key}`), symbol: "circle" } };
    if (!column) return { name: "points", at, marker: { color: ink("accent"), symbol: "circle" } };
    if (!column.labels && key !== MISSING) return { name: column.name, at, numbers: column };
    const isDim = state.only.size > 0 && !state.only.has(key);
    const marker = groupMarker(key);
    return { name: groupName(column, key), at, marker: isDim ? { ...marker, color: ink("dim") } : marker, below: isDim ? 2 : key === MISSING || key >= report.mostColours ? 1 : 0 };
  };
  return [...found].sort(([a], [b]) => a - b).map(([key, at]) => layer(key, at)).sort((a, b) => (b.below ?? 0) - (a.below ?? 0));
}
function scale(column) {
  const [low, high] = column.range;
  return { cmin: low, cmax: high > low ? high : low + 1, colorscale: ramp(), showscale: false, colorbar: bar(column) };
}
const bar = column => ({ title: { text: plain(short(column.name)), side: "right" }, thickness: 14, outlinewidth: 0, len: 0.8 });
function traces({ which, axes }, view, shaded, more = {}) {
  const type = view === "solid" ? "scatter3d" : which.length > SVG_POINTS && hasWebgl ? "scattergl" : "scatter";
  const size = sizeOf(which.length) * (view === "solid" ? 0.6 : 1);
  return layers(which, shaded).map(layer => {
    const points = layer.at.map(place => which[place]), [x, y, z] = pick(axes, layer.at);
    const marker = { size, opacity: 0.85, line: { width: 0 }, ...layer.marker };
    if (layer.numbers) Object.assign(marker, scale(layer.numbers), { color: points.map(point => numberOf(layer.numbers, point)), symbol: "circle" });
    return { type, mode: "markers", x, y, ...(z ? { z } : {}), name: plain(short(layer.name)), marker, hoverinfo: "text",
      hovertext: points.map(point => hoverOf(point, shaded)), customdata: points, showlegend: !layer.numbers && (shaded || !!report.columns[state.colour]), ...more };
  });
}
function marks({ which, axes }, view) {
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
// Cells of a part of the picture: size to a side of the whole, from one column and row, with counts and levels.
function grid(method, area) {
  const found = report.methods[method].cells[method ? report.chosen : state.power], { size, fine } = found;
  const counts = array(found.counts), levels = report.columns[state.colour] ? array(found.colours[state.colour]) : null;
  const coarse = { size, left: 0, bottom: 0, width: size, height: size, counts, levels };
  if (!area || !fine) return coarse;
  // As many cells along the shorter side of the visible part as the first picture has, when all of it is seen.
  const shorter = Math.min(...area.map(([low, high]) => high - low)), wanted = size * 2.2 / shorter;
  const level = Math.min(fine.bits, Math.floor(Math.log2(wanted)));
  return 2 ** level > size ? finer(fine, level, area, coarse) : coarse;
}
// The points of a cell are consecutive: the bits of both coordinates alternate in the number of a cell.
function finer(fine, level, area, coarse) {
  fine.places ??= places(array(fine.steps));
  const [x, y] = fine.places, shift = fine.bits - level, size = 2 ** level, up = shift + level - Math.log2(coarse.size);
  const [[left, right], [bottom, top]] = area.map(([low, high]) => [low - BEYOND * (high - low), high + BEYOND * (high - low)]
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
// Coordinates of the points, from the differences between the numbers of their cells.
function places(steps) {
  const n = steps.length, x = new Uint16Array(n), y = new Uint16Array(n);
  for (let at = 0, code = 0; at < n; at++) {
    code += steps[at];
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
function cells(method, area, more = {}) {
  const { size, left, bottom, width, height, counts, levels } = grid(method, area), column = report.columns[state.colour];
  const z = [], text = [];
  for (let row = 0; row < height; row++) {
    const values = new Array(width).fill(null), words = new Array(width).fill("");
    for (let at = 0; at < width; at++) {
      const cell = row * width + at, level = levels ? levels[cell] : 0;
      if (!counts[cell]) continue;
      words[at] = counted(counts[cell], "point");
      if (!column) { values[at] = Math.log10(counts[cell]); continue; }
      const name = plain(short(column.name));
      if (level === NO_VALUE) { words[at] += `<br>${name}: ${report.missing}`; continue; }
      if (!column.labels) {
        const average = column.range[0] + (column.range[1] - column.range[0]) * (level - 1) / (LEVELS - 1);
        values[at] = average; words[at] += `<br>mean ${name}: ${digits(average, 3)}`;
      } else {
        values[at] = level - 1; words[at] += `<br>most common: ${plain(short(groupName(column, level - 1), 80))}`;
      }
    }
    z.push(values); text.push(words);
  }
  const step = 2 / size;
  const paint = !column ? { colorscale: ramp(), colorbar: { title: { text: "points (log10)", side: "right" }, thickness: 14, outlinewidth: 0, len: 0.8 } }
    : !column.labels ? { zmin: column.range[0], zmax: column.range[1] > column.range[0] ? column.range[1] : column.range[0] + 1, colorscale: ramp(), colorbar: bar(column) }
      : discrete(column);
  return { type: "heatmap", x0: -1 + (left + 0.5) * step, dx: step, y0: -1 + (bottom + 0.5) * step, dy: step, z, text, hoverinfo: "text", hoverongaps: false, showscale: false, ...paint, ...more };
}
function discrete(column) {
  const n = Math.min(column.labels.length, report.mostColours + 1), colorscale = [];
  const paint = key => state.only.size > 0 && !state.only.has(key) ? ink("dim") : groupMarker(key).color;
  for (let key = 0; key < n; key++) colorscale.push([key / n, paint(key)], [(key + 1) / n, paint(key)]);
  const tickvals = Array.from({ length: n }, (_, key) => key);
  return { zmin: -0.5, zmax: n - 0.5, colorscale, colorbar: { ...bar(column), tickvals, ticktext: tickvals.map(key => plain(short(groupName(column, key), 24))) } };
}
const inCells = () => !!report.methods[0].cells && state.view === "flat" && state.draw === "cells" && !isShaded();

// ---- labels ----------------------------------------------------------------------------------------------------------
const hasLabels = () => state.view === "flat" && !!report.columns[state.colour]?.labels;
// The densest place of each group in the visible part.
function spots({ which, axes: [x, y] }) {
  const column = report.columns[state.colour], [[left, right], [bottom, top]] = visible(), groups = new Map();
  which.forEach((point, place) => {
    const key = groupOf(column, point), across = (x[place] - left) / (right - left), along = (y[place] - bottom) / (top - bottom);
    if (key === MISSING || key >= report.mostColours || (state.only.size > 0 && !state.only.has(key))) return;
    if (across < 0 || across >= 1 || along < 0 || along >= 1) return;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push([x[place], y[place], Math.floor(across * SPOTS), Math.floor(along * SPOTS)]);
  });
  return [...groups].map(([key, members]) => {
    const counts = new Uint32Array((SPOTS + 2) ** 2), at = (i, j) => (j + 1) * (SPOTS + 2) + i + 1;
    for (const [, , i, j] of members) for (const di of [-1, 0, 1]) for (const dj of [-1, 0, 1]) counts[at(i + di, j + dj)] += di || dj ? 2 : 3;
    const [, , i, j] = members.reduce((best, one) => counts[at(one[2], one[3])] > counts[at(best[2], best[3])] ? one : best);
    const close = members.filter(one => Math.abs(one[2] - i) < 2 && Math.abs(one[3] - j) < 2), middle = axis => close.reduce((sum, one) => sum + one[axis], 0) / close.length;
    const [low, high] = [0.1, 0.9].map(share => close.map(one => one[1]).sort((a, b) => a - b)[Math.floor(share * close.length)]);
    return { x: middle(0), y: middle(1), tall: high - low, size: members.length, name: groupName(column, key) };
  }).sort((a, b) => b.size - a.size);
}
const pen = document.createElement("canvas").getContext("2d");
// How many of the points lie under a box in the picture, in pixels; counted in squares.
function crowd({ axes: [x, y] }, xaxis, yaxis) {
  const side = 6, columns = Math.ceil(xaxis._length / side), rows = Math.ceil(yaxis._length / side), counts = new Uint32Array(columns * rows);
  for (let at = 0; at < x.length; at++) {
    const i = Math.floor(xaxis.d2p(x[at]) / side), j = Math.floor(yaxis.d2p(y[at]) / side);
    if (i >= 0 && i < columns && j >= 0 && j < rows) counts[j * columns + i]++;
  }
  return box => {
    const [left, top, right, bottom] = box.map(end => Math.floor(end / side));
    let sum = 0;
    for (let j = Math.max(0, top); j <= Math.min(rows - 1, bottom); j++) for (let i = Math.max(0, left); i <= Math.min(columns - 1, right); i++) sum += counts[j * columns + i];
    return sum;
  };
}
// Where labels may stand around a spot.
const AROUND = [24, 36, 50, 68, 90, 115].flatMap(radius => [...Array(12).keys()].map(turn => [1.3 * radius * Math.sin(turn * Math.PI / 6), -radius * Math.cos(turn * Math.PI / 6)]));
// Annotations that do not cover each other: in the middle of a large group, else where they cover few points, with a line
// to the group if they are not next to it. There is none where there is no room.
function annotations() {
  if (!state.labels || !hasLabels() || !$("plot")._fullLayout?.xaxis) return [];
  const { xaxis, yaxis } = $("plot")._fullLayout, [width, height] = [xaxis._length, yaxis._length], points = shown(), covered = crowd(points, xaxis, yaxis);
  pen.font = "600 13px system-ui, sans-serif";
  const all = spots(points).map(one => ({ ...one, px: xaxis.d2p(one.x), py: yaxis.d2p(one.y) }));
  const taken = all.map(({ px, py }) => [px - 5, py - 5, px + 5, py + 5]), found = [];
  const isApart = ([a, b, c, d], [e, f, g, h]) => a >= g || c <= e || b >= h || d <= f;
  all.forEach(({ x, y, tall, name, px, py }, own) => {
    const text = short(name, Math.max(8, Math.min(24, Math.round(width / 28)))), half = pen.measureText(text).width / 2 + 5;
    const box = ([dx, dy]) => [px + dx - half, py + dy - LABEL / 2, px + dx + half, py + dy + LABEL / 2];
    const isFree = one => one[0] >= 0 && one[1] >= 0 && one[2] <= width && one[3] <= height && taken.every((other, at) => at === own || isApart(one, other));
    const isLarge = Math.abs(yaxis.d2p(0) - yaxis.d2p(tall)) > 2 * LABEL, beside = [[0, -LABEL], [0, LABEL], [half + 8, 0], [-half - 8, 0]];
    const free = [...(isLarge ? [[0, 0]] : []), ...beside, ...AROUND].filter(one => isFree(box(one)));
    if (!free.length) return;
    const cost = one => covered(box(one)) + Math.hypot(...one) / 8, isMiddle = isLarge && free[0][1] === 0 && free[0][0] === 0;
    const offset = isMiddle ? free[0] : free.reduce((best, one) => cost(one) < cost(best) ? one : best);
    taken.push(box(offset));
    const isClose = isMiddle || beside.includes(offset) || Math.hypot(...offset) < 40;
    found.push({ x, y, text: `<b>${plain(text)}</b>`, font: { size: 13, color: ink("ink") }, bgcolor: isDark() ? "rgba(26,30,38,.6)" : "rgba(255,255,255,.7)", borderpad: 1, showarrow: !isClose,
      ...(isClose ? { xshift: offset[0], yshift: -offset[1] } : { ax: offset[0], ay: offset[1], arrowhead: 0, arrowwidth: 1, arrowcolor: ink("soft") }) });
  });
  return found;
}

// ---- the large picture -----------------------------------------------------------------------------------------------
async function drawPicture() {
  const { view } = state, many = inCells(), found = shown();
  // Rings over cells; of the whole picture they would hide it, and are there for the pointer only.
  const over = { showlegend: false, marker: { size: 4, color: "rgba(0,0,0,0)", line: { width: 1, color: ink("ink") } }, opacity: state.range ? 0.35 : 0 };
  const data = many ? [cells(state.method, state.range), ...traces(pointsOverCells(found), view, false, over)] : traces(found, view, isShaded());
  data.push(...marks(found, view));
  const scene = { xaxis: blank(), yaxis: blank(), zaxis: blank(), aspectmode: "cube", camera: { eye: state.camera } };
  const wide = extents(found.axes), ranged = at => state.range ? { range: state.range[at] } : {};
  const plane = { xaxis: { ...blank({}, wide[0]), ...ranged(0) }, yaxis: { ...blank({ scaleanchor: "x" }, wide[1]), ...ranged(1) }, dragmode: isCoarse && document.activeElement !== $("plot") ? false : "pan" };
  await Plot.react("plot", data, look("plot", view === "solid" ? { scene } : plane), settings);
  await placeLabels();
}
async function placeLabels() {
  const now = annotations();
  if (now.length || $("plot").layout.annotations?.length) await Plot.relayout("plot", { annotations: now });
}
// Listen to the picture; purging it takes the listeners with it.
function watch() {
  $("plot").on("plotly_click", event => { const point = event.points[0].customdata; if (typeof point === "number") mark(point); });
  $("plot").on("plotly_relayout", async changes => {
    if ("annotations" in changes) return;
    if (state.view === "solid") { state.camera = $("plot").layout.scene.camera?.eye ?? EYE; return; }
    state.range = visible().map(range => [...range]);
    if (inCells()) await drawPicture(); // finer cells, and more points of the sample
    else await placeLabels();
  });
}
// Ranges of both axes of the picture in the plane.
const visible = () => [$("plot")._fullLayout.xaxis.range, $("plot")._fullLayout.yaxis.range];
// Move the picture: right and up by a tenth, and zoom by a factor.
function move(right, up, zoom) {
  if (state.view === "flat") {
    const [x, y] = visible().map(([low, high], at) => {
      const half = (high - low) / 2, centre = (low + high) / 2 + 0.2 * half * [right, up][at];
      return [centre - half * zoom, centre + half * zoom];
    });
    return Plot.relayout("plot", { "xaxis.range": x, "yaxis.range": y });
  }
  const { x, y, z } = state.camera, far = Math.hypot(x, y, z), turn = Math.atan2(y, x) - 0.15 * right;
  const rise = Math.max(-1.5, Math.min(1.5, Math.asin(z / far) + 0.15 * up)), round = far * zoom;
  return Plot.relayout("plot", { "scene.camera.eye": { x: round * Math.cos(rise) * Math.cos(turn), y: round * Math.cos(rise) * Math.sin(turn), z: round * Math.sin(rise) } });
}
function showWhole() { state.range = null; state.camera = EYE; return drawPicture(); }
function steer(event) {
  const arrow = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key], zoom = { "+": 0.8, "=": 0.8, "-": 1.25 }[event.key];
  if (event.target !== $("plot") || event.ctrlKey || event.metaKey || event.altKey || !(arrow || zoom || event.key === "0")) return;
  event.preventDefault();
  if (event.key === "0") showWhole();
  else move(...(arrow ?? [0, 0]), zoom ?? 1);
}
// The picture as a file, with a legend of its own.
function save() {
  const { data, layout } = $("plot");
  const own = data.map(trace => trace.marker?.colorbar ? { ...trace, marker: { ...trace.marker, showscale: true } } : trace.type === "heatmap" ? { ...trace, showscale: true } : trace);
  const whole = { ...layout, showlegend: true, paper_bgcolor: ink("sheet"), legend: { itemsizing: "constant" }, margin: { l: 12, r: 12, t: 12, b: 12 } };
  return Plot.downloadImage({ data: own, layout: whole }, { format: "png", scale: 2, width: layout.width + 200, height: layout.height, filename: "embedding" });
}

// ---- the legend ------------------------------------------------------------------------------------------------------
function swatch({ color, symbol }) {
  const box = element("span");
  box.innerHTML = `<svg width="16" height="16" aria-hidden="true"><path d="${OUTLINES[symbol]}" fill="${color}"/></svg>`;
  return box.firstChild;
}
function drawLegend() {
  const box = $("legend"), column = report.columns[state.colour], focused = box.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const parts = isShaded() ? trustLegend() : !column ? [] : column.labels ? groupLegend(column) : numberLegend(column);
  if (state.trust && !isMeasured()) parts.unshift(element("p", `Trust is known for ${report.methods[0].name} in 2-D at its own diffusion time.`));
  box.replaceChildren(...parts);
  if (focused) box.querySelector(`[data-key="${focused}"]`)?.focus();
}
function trustLegend() {
  const { k, counts, every } = report.trust, sizes = TRUST.map(() => 0);
  for (const point of report.trust.place.keys()) sizes[trustLevel(point)]++;
  const rows = TRUST.map(([word, range], at) => element("li", "", {}, element("span", "", { className: "entry" }, swatch({ color: ink(`trust-${3 - at}`), symbol: "circle" }),
    element("span", word, {}, element("small", `, ${range}: ${counted(sizes[at], "point")}`)))));
  const whose = every ? "" : ` Shown for a random sample of ${counted(counts.length, "point")}.`;
  return [element("h3", "Trust"), element("p", `How many of a point's ${counted(k, "nearest neighbour")} in this picture are near in the data, too:`), element("ul", "", { className: "groups" }, ...rows),
    element("p", `Near means: not surely much farther than its true nearest neighbours.${whose}`)];
}
function groupLegend(column) {
  const keys = [...Array(Math.min(column.labels.length, report.mostColours + 1)).keys()].filter(key => sizeOfGroup(column, key)).concat(column.missing ? [MISSING] : []);
  const rows = keys.map(key => {
    const button = element("button", "", { type: "button", onclick: () => { state.only.has(key) ? state.only.delete(key) : state.only.add(key); drawLegend(); soon(); } },
      swatch(groupMarker(key)), element("span", short(groupName(column, key), 60), {}, " ", element("small", sizeOfGroup(column, key).toLocaleString("en"), {}, element("span", " points", { className: "unseen" }))));
    button.dataset.key = key;
    button.setAttribute("aria-pressed", state.only.has(key));
    return element("li", "", {}, button);
  });
  const whole = element("button", "Show all alike", { type: "button", id: "all", hidden: !state.only.size, onclick: () => { state.only.clear(); drawLegend(); soon(); $("legend").querySelector("button")?.focus(); } });
  const parts = [element("h3", short(column.name, 80)), element("ul", "", { className: "groups" }, ...rows), whole];
  if (column.groups > report.mostColours) parts.push(element("p", `The ${report.mostColours} largest of ${column.groups} groups have colours.`));
  if (keys.length > 1) parts.push(element("p", "Press a group to single it out.", { className: "how" }));
  return parts;
}
function sizeOfGroup(column, key) {
  if (key === MISSING) return column.missing;
  return key < report.mostColours ? column.counts[key] : column.counts.slice(key).reduce((sum, count) => sum + count, 0);
}
function numberLegend(column) {
  const strip = element("div", "", { className: "ramp" });
  strip.style.background = `linear-gradient(90deg, ${SCALES[theme()].join(", ")})`;
  const parts = [element("h3", short(column.name, 80)), strip, element("div", "", { className: "ends" }, element("span", digits(column.range[0])), element("span", digits(column.range[1])))];
  if (column.missing) parts.push(element("ul", "", { className: "groups" }, element("li", "", {}, element("span", "", { className: "entry" }, swatch(groupMarker(MISSING)), `${report.missing}: ${column.missing.toLocaleString("en")}`))));
  return parts;
}
// What is shown, in words: short for the live region, and longer as the description of the picture.
function describe() {
  const column = report.columns[state.colour], time = report.filters[state.power];
  const where = `${report.methods[state.method].name} in ${state.view === "flat" ? "2-D" : "3-D"}, diffusion time ${time}`;
  const colours = isShaded() ? "shaded by trust" : !column ? "in one colour" : `coloured by ${short(column.name)}`;
  $("said").textContent = `${where}, ${colours}.`;
  const groups = column?.labels && !isShaded() ? column.labels.slice(0, 10).map((label, key) => `${short(label)} (${sizeOfGroup(column, key)})`).join(", ") : "";
  const most = column?.labels && column.labels.length > 10 ? "The largest groups or the first: " : "Groups: ";
  $("shown").textContent = `Scatter plot of ${counted(report.n, "point")}: ${where}, ${colours}.` + (groups ? ` ${most}${groups}.` : "");
}

// ---- neighbours ------------------------------------------------------------------------------------------------------
function nearest() {
  const { which, axes, radius } = cloud(state.method, state.view, state.power), here = which.indexOf(state.marked);
  if (here < 0) return [];
  const squared = which.map((point, at) => ({ point, distance: axes.reduce((sum, values) => sum + (values[at] - values[here]) ** 2, 0) }));
  return squared.filter(one => one.point !== state.marked).sort((a, b) => a.distance - b.distance).slice(0, NEAREST)
    .map(one => ({ point: one.point, distance: radius * Math.sqrt(one.distance) }));
}
function interval(a, b) {
  const { k, points, centre, width } = report.near, list = array(points);
  for (const [from, to] of [[a, b], [b, a]]) {
    for (let at = from * k; at < (from + 1) * k; at++) {
      if (list[at] === to) return [-1, 1].map(side => centre.scale * array(centre.values)[at] * (1 + side * array(width)[at] / WIDEST));
    }
  }
  return null;
}
function mark(point) {
  state.marked = point;
  $("forget").hidden = point === null;
  listNeighbours();
  drawPicture();
}
function listNeighbours() {
  const box = $("found"), column = report.columns[state.colour];
  box.replaceChildren();
  if (state.marked === null) return;
  box.append(element("p", "", {}, element("strong", idOf(state.marked)), column ? ` – ${column.name}: ${valueOf(column, state.marked)}` : "", trustOf(state.marked) === null || !isMeasured() ? "" : `. ${trustIn(state.marked)}.`));
  const found = nearest();
  if (!found.length) { box.append(element("p", "This point is not in the sample that is drawn here; see 2-D at the chosen diffusion time.")); return; }
  const head = element("tr", "", {}, ...["neighbour", "distance in this picture", "true distance, 95% interval"].map(title => element("th", title, { scope: "col" })));
  const rows = found.map(one => {
    const sure = interval(state.marked, one.point), words = !sure ? "not kept" : sure[0] === sure[1] ? `${digits(sure[0], 3)} (exact)` : `${digits(sure[0], 3)} to ${digits(sure[1], 3)}`;
    const name = element("button", short(idOf(one.point), 60), { type: "button", className: "link", onclick: () => mark(one.point) });
    return element("tr", "", {}, element("th", "", { scope: "row" }, name), element("td", digits(one.distance, 3)), element("td", words));
  });
  box.append(element("table", "", {}, element("caption", "Nearest in this picture"), element("thead", "", {}, head), element("tbody", "", {}, ...rows)));
}
function search(wanted) {
  const text = wanted.trim(), low = text.toLowerCase(), box = $("found"), close = [];
  if (!text) return;
  for (const point of report.every) {
    const id = idOf(point);
    if (id === text) { mark(point); return; }
    if (close.length < 12 && id.toLowerCase().includes(low)) close.push(point);
  }
  if (close.length === 1) { mark(close[0]); return; }
  const sampled = report.drawn.length < report.n ? " It may be among the points that are not in the sample." : "";
  box.replaceChildren(element("p", close.length ? `No point is called “${text}”. Do you mean one of these?` : `No point is called “${text}”.${sampled}`),
    element("p", "", {}, ...close.flatMap(point => [element("button", short(idOf(point), 60), { type: "button", className: "link", onclick: () => mark(point) }), " "])));
}

// ---- the other pictures ----------------------------------------------------------------------------------------------
function drawLineup() {
  if (report.methods.length < 2) return null;
  const box = $("lineup"), n = report.methods.length, stacked = box.clientWidth < 560, many = !!report.methods[0].cells;
  box.style.height = stacked ? `${18 * n}rem` : "22rem";
  const data = [], layout = {}, titles = [];
  report.methods.forEach((method, at) => {
    const suffix = at ? at + 1 : "", gap = stacked ? 0.03 : 0.02, from = at / n, to = (at + 1) / n;
    const x = stacked ? [0, 1] : [from + gap / 2, to - gap / 2], y = stacked ? [1 - to, 1 - from - 0.12 / n] : [0, 0.9];
    const place = { xaxis: `x${suffix}`, yaxis: `y${suffix}` }, found = cloud(at, "flat", report.chosen);
    data.push(...(many ? [cells(at, null, place)] : traces(found, "flat", false, place)));
    const wide = extents(found.axes);
    layout[`xaxis${suffix}`] = blank({ domain: x, anchor: `y${suffix}`, fixedrange: true }, wide[0]);
    layout[`yaxis${suffix}`] = blank({ domain: y, anchor: `x${suffix}`, scaleanchor: `x${suffix}`, fixedrange: true }, wide[1]);
    titles.push({ text: `<b>${method.name}</b>`, showarrow: false, xref: "paper", yref: "paper", x: (x[0] + x[1]) / 2, y: y[1], xanchor: "center", yanchor: "bottom" });
  });
  data.forEach(trace => { if (trace.marker) trace.marker.size = Math.max(2.5, trace.marker.size * 0.6); });
  return Plot.react("lineup", data, look("lineup", { ...layout, annotations: titles, dragmode: false }), quiet);
}
function drawDistances() {
  const { names, exact, low, high } = report.pairs, drawn = report.pairs[state.space], n = exact.length, ends = [];
  for (let i = 0; i < names.length; i++) for (let j = i + 1; j < names.length; j++) ends.push([names[i], names[j]]);
  const order = exact.map((_, at) => at).sort((a, b) => exact[a] - exact[b]);
  const bins = Math.max(1, Math.min(30, Math.floor(n / 12))), middle = list => list.sort((a, b) => a - b)[list.length >> 1];
  const x = [], bottom = [], top = [];
  for (let bin = 0; bin < bins; bin++) {
    const some = order.slice(Math.floor(bin * n / bins), Math.floor((bin + 1) * n / bins));
    x.push(middle(some.map(at => exact[at]))); bottom.push(middle(some.map(at => low[at]))); top.push(middle(some.map(at => high[at])));
  }
  const last = exact[order[n - 1]], edge = { type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
  const where = state.space === "flat" ? "in the picture" : "in the embedding";
  const data = [
    { ...edge, x, y: bottom }, { ...edge, x, y: top, fill: "tonexty", fillcolor: ink("band") },
    { type: "scatter", mode: "lines", x: [0, last], y: [0, last], line: { color: ink("soft"), width: 1.5, dash: "dash" }, hoverinfo: "skip" },
    { type: "scatter", mode: "markers", x: exact, y: drawn, hoverinfo: "text", marker: { size: 5, color: ink("accent"), opacity: 0.6 },
      hovertext: ends.map(([a, b], i) => `<b>${plain(short(a))}</b> – <b>${plain(short(b))}</b><br>in the data ${digits(exact[i])}<br>${where} ${digits(drawn[i])}<br>95% interval ${digits(low[i])} to ${digits(high[i])}`) },
  ];
  return Plot.react("distances", data, look("distances", { margin: { l: 60, r: 12, t: 8, b: 48 }, dragmode: false,
    xaxis: axis({ title: { text: "distance in the data" }, rangemode: "tozero" }), yaxis: axis({ title: { text: `distance ${where}` }, rangemode: "tozero" }) }), quiet);
}
function drawCurves() {
  if (!$("scales").open) return null;
  const { powers, chosen, curves, methods } = report, dashes = ["solid", "dash", "dot"];
  const line = (name, y, at) => ({ type: "scatter", mode: "lines+markers", name, x: powers, y, line: { dash: dashes[at % 3], color: colourOf(at) }, marker: { symbol: shapeOf(at), size: 7 } });
  // No line if the embedding keeps all times.
  const here = chosen >= powers.length ? [] : [{ type: "line", x0: powers[chosen], x1: powers[chosen], y0: 0, y1: 1, yref: "paper", line: { color: ink("soft"), dash: "dash", width: 1 } }];
  const some = powers.filter((_, at) => at % 2 === 0), time = axis({ type: "log", title: { text: "diffusion time" }, tickvals: some, ticktext: some.map(power => digits(power)) });
  const shape = { margin: { l: 52, r: 10, t: 8, b: 44 }, showlegend: true, dragmode: false, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 12 }, itemclick: false, itemdoubleclick: false } };
  return Promise.all([
    Plot.react("distortion", methods.map((method, at) => line(method.name, method.distortion.slice(0, powers.length), at)), look("distortion", { ...shape, xaxis: time, yaxis: axis({ title: { text: "central log L" }, rangemode: "tozero" }), shapes: here }), quiet),
    Plot.react("entropy", [line("effective dimension", curves.effective_dimension, 0), line("spectral dimension", curves.spectral_dimension, 1), line("entropy", curves.entropy, 2)],
      look("entropy", { ...shape, xaxis: time, yaxis: axis({ type: "log", dtick: 1, range: logRange([...curves.entropy, ...curves.effective_dimension, ...curves.spectral_dimension]) }), shapes: here }), quiet),
    Plot.react("spectrum", [
      { type: "scatter", mode: "lines", name: "all, estimated", x: curves.values, y: curves.counts.map(count => count > 0.5 ? count : null), line: { color: colourOf(0) } },
      { type: "scatter", mode: "markers", name: "largest", x: curves.eigenvalues, y: curves.eigenvalues.map((_, at) => at + 1), marker: { symbol: "x", color: colourOf(1), size: 7 } },
    ], look("spectrum", { ...shape, xaxis: axis({ type: "log", title: { text: "eigenvalue" }, dtick: 1 }), yaxis: axis({ type: "log", title: { text: "how many are larger" }, dtick: 1 }) }), quiet),
  ]);
}
// From a tenth, below which a dimension says nothing, to the largest.
const logRange = values => [-1, Math.log10(Math.max(2, ...values)) + 0.1];
function drawAll() { drawLegend(); return Promise.all([drawPicture(), drawLineup(), drawDistances(), drawCurves()]); }

// ---- controls --------------------------------------------------------------------------------------------------------
function showControls() {
  const method = report.methods[state.method];
  const words = `${report.filters[state.power]}${state.power === report.chosen ? " (chosen)" : ""}`;
  $("power-value").textContent = words;
  $("power").value = state.power;
  $("power").setAttribute("aria-valuetext", words);
  $("power").disabled = report.filters.length < 2 || state.method > 0 || state.view === "solid";
  document.querySelector("input[value=solid]").disabled = !method.solid || !hasWebgl;
  $("labels-label").hidden = !hasLabels();
  $("draw").disabled = state.view === "solid" || isShaded();
}
let waiting = false;
function soon() { // draw once for many movements of the slider
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; showControls(); describe(); drawLegend(); listNeighbours(); drawPicture(); drawLineup(); });
}
function show(changes) {
  const wasView = state.view;
  Object.assign(state, changes);
  if (state.view === "solid" && !report.methods[state.method].solid) { state.view = "flat"; document.querySelector("input[value=flat]").checked = true; }
  if (state.method > 0 || state.view === "solid") state.power = report.chosen;
  if ("method" in changes) state.range = null;
  if ("colour" in changes) state.only.clear();
  if (state.view !== wasView) { Plot.purge("plot"); Plot.newPlot("plot", [], look("plot"), settings); watch(); }
  soon();
}
function fill() {
  const option = (value, text) => element("option", text, { value });
  report.columns.forEach((column, at) => $("colour").append(option(at, short(column.name, 60))));
  $("colour-label").hidden = !report.columns.length;
  $("colour").append(option(-1, report.methods[0].cells ? "(number of points)" : "(one colour)"));
  report.methods.forEach((method, at) => $("method").append(option(at, method.name)));
  $("space-label").hidden = report.components <= 2;
  $("space").append(option("flat", "in the picture"), option("embedded", `in all ${report.components} components`));
  $("draw-label").hidden = !report.methods[0].cells;
  state.colour = report.columns.length ? 0 : -1;
  $("colour").value = state.colour;
  $("power").max = report.filters.length - 1;
  state.power = report.chosen;
  if (!hasWebgl) $("status").textContent = "This browser has no WebGL, which pictures in 3-D need.";
}
function wire() {
  const on = (id, kind, listener) => $(id).addEventListener(kind, listener);
  document.querySelectorAll("input[name=view]").forEach(input => input.addEventListener("change", () => show({ view: input.value })));
  on("method", "change", event => show({ method: Number(event.target.value) }));
  on("colour", "change", event => show({ colour: Number(event.target.value) }));
  on("draw", "change", event => show({ draw: event.target.value }));
  on("labels", "change", event => show({ labels: event.target.checked }));
  on("trust", "change", event => show({ trust: event.target.checked }));
  on("power", "input", event => show({ power: Number(event.target.value) }));
  on("space", "change", event => { state.space = event.target.value; drawDistances(); });
  on("search", "submit", event => { event.preventDefault(); search($("search-id").value); });
  on("forget", "click", () => { $("search-id").value = ""; mark(null); $("search-id").focus(); });
  on("closer", "click", () => move(0, 0, 0.67));
  on("farther", "click", () => move(0, 0, 1.5));
  on("whole", "click", showWhole);
  on("save", "click", save);
  on("scales", "toggle", drawCurves);
  on("copy", "click", async () => {
    try { await navigator.clipboard.writeText($("call").textContent); $("copied").textContent = "Copied."; } catch {
      getSelection().selectAllChildren($("call")); $("copied").textContent = "Selected; copy it with your keyboard.";
    }
  });
  on("plot", "keydown", steer);
  // The wheel and, on a touch screen, a finger scroll the page until the picture is clicked.
  $("plot").addEventListener("wheel", event => { if (document.activeElement !== $("plot")) event.stopPropagation(); }, { capture: true });
  $("plot").addEventListener("pointerdown", () => $("plot").focus({ preventScroll: true }), { capture: true });
  if (isCoarse) for (const kind of ["focus", "blur"]) on("plot", kind, () => { if (state.view === "flat") Plot.relayout("plot", { dragmode: kind === "focus" ? "pan" : false }); });
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; drawAll(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  addEventListener("beforeprint", () => setPrinting(true));
  addEventListener("afterprint", () => setPrinting(false));
  matchMedia("print").addEventListener("change", event => setPrinting(event.matches));
}
let folded = [];
function setPrinting(begins) { // in the light theme, with all parts open
  if (begins === root.classList.contains("printing")) return;
  root.classList.toggle("printing", begins);
  if (begins) folded = [...document.querySelectorAll("details.section:not([open])")];
  folded.forEach(one => { one.open = begins; });
  drawAll();
}

load().then(async () => {
  $("status").textContent = "";
  fill();
  showControls();
  wire();
  describe();
  await drawAll();
  watch();
  document.body.dataset.ready = "yes";
}).catch(error => {
  $("status").textContent = `The pictures could not be drawn: ${error.message}. They need a browser of 2023 or later.`;
  throw error;
});
