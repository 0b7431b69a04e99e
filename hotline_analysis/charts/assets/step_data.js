// The data of the step view: the tree of a step as slices in rows, and what its bars say.
//
// All names come from a trace and are untrusted: they are drawn on a canvas or set as text, never as markup.
"use strict";

/** Numbers and names as people read them. */
const hotlineWords = {
  /** As `duration` in text/formats.py. @param {number} ns @param {Unit[]} units */
  duration(ns, units) {
    const rounded = (/** @type {number} */ digits, /** @type {number} */ size) => Math.floor((ns * 10 ** digits) / size + 0.5);
    const [size, unit] = units.findLast(([each]) => rounded(3, each) >= 1000) ?? units[0];
    const digits = size === 1 ? 0 : [2, 1].find((each) => rounded(each, size) < 1000) ?? 0;
    const value = rounded(digits, size) / 10 ** digits;
    return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }) + "\u00a0" + unit;
  },
  /** @param {number} part @param {number} whole */
  percent: (part, whole) => (whole > 0 ? ((100 * part) / whole).toFixed(1) + "\u00a0%" : "–"),
};

/** A tree as slices. @param {StepTree} data @returns {Slices} */
function hotlineSlices(data) {
  const nodes = data.nodes, sides = data.sides, count = nodes.parent.length;
  const depth = new Int32Array(count).fill(-1);
  /** @type {(n: number) => number} */
  const depthOf = (n) => (depth[n] >= 0 ? depth[n] : (depth[n] = nodes.parent[n] < 0 ? 0 : depthOf(nodes.parent[n]) + 1));
  /** The path of a module without that of the module around it: `up.0`. @param {number} n */
  function ownPart(n) {
    const path = data.names[nodes.path[n]];
    for (let at = nodes.parent[n]; at >= 0; at = nodes.parent[at]) {
      if (data.kinds[nodes.kind[at]] !== "module" || nodes.path[at] < 0) continue;
      const around = data.names[nodes.path[at]] + ".";
      return path.startsWith(around) ? path.slice(around.length) : path;
    }
    return path;
  }
  const label = (/** @type {number} */ n) => {
    // Some programs put marks around their names: `## forward ##`.
    const name = data.names[nodes.name[n]].replace(/^#+ *(.*?) *#+$/, "$1"), kind = data.kinds[nodes.kind[n]];
    if (kind === "phase") return name.replace(/_/g, " ");
    if (kind === "module" && nodes.path[n] >= 0) return ownPart(n) || name;
    if (kind !== "group") return name;
    const others = nodes.names[n] - 1;
    if (others === 0) return `${name} × ${nodes.members[n]}`;
    return `${name} ${Math.round(nodes.pct[n])} % and ${others} other${others === 1 ? "" : "s"}`;
  };
  const isGpu = (/** @type {number} */ s) => data.tracks[sides.track[s]].device === "gpu";
  // The thread of the training loop has most of the step; others show what runs backward.
  let main = -1, most = -1;
  for (let s = 0; s < sides.node.length; s++) {
    if (nodes.parent[sides.node[s]] < 0 && !isGpu(s) && sides.dur[s] > most) [main, most] = [sides.track[s], sides.dur[s]];
  }
  /** @type {Map<number, number>} */
  const time = new Map();
  const onGpu = new Uint8Array(count), inner = new Uint8Array(count);
  for (let s = 0; s < sides.node.length; s++) {
    if (!isGpu(s)) continue;
    onGpu[sides.node[s]] = 1;
    if (nodes.parent[sides.node[s]] < 0) time.set(sides.track[s], (time.get(sides.track[s]) ?? 0) + sides.time[s]);
  }
  for (let n = 0; n < count; n++) if (onGpu[n] && nodes.parent[n] >= 0) inner[nodes.parent[n]] = 1;
  const whole = [...time.values()].reduce((sum, each) => sum + each, 0);
  // The busiest streams, with two per cent of the GPU's work or more.
  const streams = [...time].filter(([, each]) => each >= 0.02 * whole).sort((a, b) => b[1] - a[1]).slice(0, 3)
    .map(([track]) => ({ track, name: data.tracks[track].name }));
  /** @type {Slice[]} */
  const slices = [];
  for (let s = 0; s < sides.node.length; s++) {
    const n = sides.node[s], gpu = isGpu(s), row = depthOf(n) - 1;
    if (row < 0) continue;
    const leaf = gpu && !inner[n];
    if (!gpu && sides.track[s] !== main && data.phases[nodes.phase[n]] !== "backward") continue;
    if (gpu && !leaf && sides.track[s] !== streams[0]?.track) continue;
    const path = [];
    for (let at = nodes.parent[n]; at >= 0 && nodes.parent[at] >= 0; at = nodes.parent[at]) path.unshift(label(at));
    slices.push({
      node: n, lane: !gpu ? "cpu" + row : leaf ? "k" + sides.track[s] : "gpu" + row, row, gpu, leaf,
      start: sides.start[s], end: sides.start[s] + sides.dur[s], time: sides.time[s], label: label(n),
      path: nodes.path[n] >= 0 ? data.names[nodes.path[n]] : path.join(" › "),
      phase: nodes.phase[n] >= 0 ? data.phases[nodes.phase[n]] : "other",
      place: nodes.source[n] >= 0 ? data.sources[nodes.source[n]].place : "",
      kind: data.kinds[nodes.kind[n]],
    });
  }
  slices.sort((a, b) => a.start - b.start || b.end - a.end);
  return { slices, streams };
}

/** Runs of one phase or wait of a main thread: what holds for most of each stretch. @param {View} view @param {Bar[]} bars */
function hotlineRuns(view, bars = view.bars) {
  const own = bars.filter((bar) => bar.device === null);
  /** @type {BarRun[]} */
  const runs = [];
  for (let bin = 0; bin < view.bins; bin++) {
    /** @type {Bar | null} */
    let best = null;
    for (const bar of own) if ((bar.share[bin] ?? 0) > (best?.share[bin] ?? 0)) best = bar;
    if (best === null) continue;
    const last = runs[runs.length - 1], from = bin * view.width, until = Math.min(view.span, from + view.width);
    if (last && last.bar === best && last.until >= from) last.until = until;
    else runs.push({ bar: best, from, until, time: 0 });
    runs[runs.length - 1].time += (best.share[bin] / 1000) * view.width;
  }
  // The only run of a bar is the whole bar, with what lies in stretches that belong to others.
  for (const run of runs) if (runs.filter((each) => each.bar === run.bar).length === 1) run.time = run.bar.time;
  return runs;
}

/**
 * What happens between two times, in words of the page: time by state of each device.
 *
 * @param {View} view @param {number} from @param {number} until
 */
function hotlineSum(view, from, until) {
  /** @type {Map<string, number>} */
  const sums = new Map();
  for (const bar of view.bars) {
    let time = 0;
    const last = Math.min(bar.share.length - 1, Math.floor(until / view.width));
    for (let bin = Math.max(0, Math.floor(from / view.width)); bin <= last; bin++) {
      const overlap = Math.min(until, (bin + 1) * view.width) - Math.max(from, bin * view.width);
      time += (bar.share[bin] / 1000) * Math.max(0, overlap);
    }
    const key = (bar.device === null ? (bar.wait ? "w:" : "c:") : "g:") + (bar.wait ?? bar.state);
    if (time > 0) sums.set(key, (sums.get(key) ?? 0) + time);
  }
  return sums;
}
