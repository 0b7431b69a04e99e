// Draws the step view on its canvas: the strip of steps, the bars of the step, and the part that is zoomed in.
"use strict";

/** @type {Record<string, string>} */
const HOTLINE_HUES = {
  load_data: "#e69f00", forward: "#0072b2", loss: "#cc79a7", zero_grad: "#56b4e9", backward: "#d55e00",
  clipping: "#f0e442", optimizer: "#009e73", other: "#999999",
};
const HOTLINE_WORK = ["computation", "communication", "memory"];
/** @param {HTMLCanvasElement} canvas */
const hotlineContext = (canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
const HOTLINE_FONT = '"Segoe UI", "Helvetica Neue", Arial, system-ui, sans-serif';

/**
 * The colours of the page, light or dark, and the patterns that tell idle time from work.
 *
 * @param {CanvasRenderingContext2D} context @returns {Paints}
 */
function hotlinePaints(context) {
  const style = getComputedStyle(document.documentElement);
  const css = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const rgb = (/** @type {string} */ color) => {
    const parts = color.length === 4 ? [...color.slice(1)].map((each) => each + each) : color.slice(1).match(/../g);
    return (parts ?? []).map((each) => parseInt(each, 16));
  };
  /** @type {Paints["mix"]} */
  const mix = (a, b, weight) => {
    const [x, y] = [rgb(a), rgb(b)];
    return "#" + x.map((each, at) => Math.round(each * weight + y[at] * (1 - weight)).toString(16).padStart(2, "0")).join("");
  };
  /** @param {number} size @param {(on: CanvasRenderingContext2D) => void} draw */
  function pattern(size, draw) {
    const scale = devicePixelRatio || 1, tile = document.createElement("canvas");
    tile.width = tile.height = Math.round(size * scale);
    const on = hotlineContext(tile);
    on.scale(scale, scale);
    draw(on);
    const made = /** @type {CanvasPattern} */ (context.createPattern(tile, "repeat"));
    made.setTransform(new DOMMatrix().scale(1 / scale));
    return made;
  }
  /** @type {(color: string, gap: number, width: number, paper: string) => CanvasPattern} */
  const hatched = (color, gap, width, paper) => pattern(gap, (on) => {
    on.fillStyle = paper;
    on.fillRect(0, 0, gap, gap);
    on.strokeStyle = color;
    on.lineWidth = width;
    on.lineCap = "square";
    for (const from of [-gap, 0, gap]) {
      on.beginPath();
      on.moveTo(from - 1, gap + 1);
      on.lineTo(from + gap + 1, -1);
      on.stroke();
    }
  });
  const striped = (/** @type {string} */ color, /** @type {string} */ paper) => pattern(5, (on) => {
    on.fillStyle = paper;
    on.fillRect(0, 0, 5, 5);
    on.fillStyle = color;
    on.fillRect(0, 0, 1.4, 5);
  });
  const colors = {
    ink: css("--ink"), soft: css("--soft"), line: css("--line"), paper: css("--paper"), panel: css("--panel"),
    hot: css("--hot"), hotPaper: css("--hot-paper"), computation: css("--computes"), memory: css("--copies"),
    communication: css("--communicates"), tint: css("--tint"), weight: parseFloat(css("--mix")) / 100,
  };
  return {
    ...colors, mix,
    hotHatch: hatched(colors.hot, 6, 2.4, colors.hotPaper),
    waitHatch: hatched(mix(css("--wait"), colors.paper, 0.75), 6, 1.5, colors.panel),
    thinHatch: hatched(mix(css("--wait"), colors.paper, 0.55), 9, 1.3, colors.panel),
    stripes: striped(mix("#1b1f24", colors.communication, 0.6), colors.communication),
    hotStripes: striped("#ffffff", colors.hot),
  };
}

/** The pattern of a state of a device. @param {Paints} paints @param {string} state @param {string} hot */
function hotlineFill(paints, state, hot) {
  if (state === hot) {
    return state === "communication" ? paints.hotStripes : HOTLINE_WORK.includes(state) ? paints.hot : paints.hotHatch;
  }
  if (state === "communication") return paints.stripes;
  if (state === "computation" || state === "memory") return paints[state];
  return ["python", "launching", "load_data", "sync", "other_ranks"].includes(state) ? paints.waitHatch : paints.thinHatch;
}

/**
 * Where everything is: rows of the picture, the rows below, and how time becomes a place.
 *
 * @param {StepScreen} screen @param {View} view @param {Slices} tree @param {number} width
 * @param {{bar: number, row: number}} extra pixels of each bar and row @returns {Layout}
 */
function hotlineLayout(screen, view, tree, width, extra) {
  const small = innerWidth <= 1100, gutter = width < 620 ? 62 : 116, room = width - gutter - 12;
  const found = /** @type {number[]} */ (view.bars.map((bar) => bar.device).filter((each) => each !== null));
  const devices = [...new Set(found)].slice(0, 4);
  const barHeight = (small ? 36 : devices.length > 1 ? 32 : 40) + extra.bar, height = 21 + extra.row;
  let y = 4;
  /** @type {Layout} */
  const place = {
    gutter, room, barHeight, height, devices, strip: -1, bars: [], axis: 0, funnel: 0, top: 0, lanes: new Map(), first: 0,
    cpuRows: 0, gpuRows: 0, all: 0,
  };
  if (screen.strip.length > 1) { place.strip = y; y += 22; }
  for (const device of [null, ...devices]) { place.bars.push({ device, y }); y += barHeight + 6; }
  // The rank that the others wait for, where there is one.
  if (view.late) { place.bars.push({ device: null, late: view.late, y }); y += barHeight + 6; }
  place.axis = y - 1;
  y += 17;
  place.funnel = y;
  y += 13;
  place.top = y;
  y += 18;
  const rows = (/** @type {string} */ lane, /** @type {number} */ most) => {
    let deepest = -1;
    for (const slice of tree.slices) if (slice.lane.startsWith(lane)) deepest = Math.max(deepest, slice.row);
    return Math.min(most, deepest + 1);
  };
  place.first = y;
  const cpuRows = rows("cpu", small ? 4 : tree.streams.length ? 5 : 7);
  for (let row = 0; row < cpuRows; row++) { place.lanes.set("cpu" + row, y); y += height + 1; }
  if (tree.streams.length) {
    y += 7;
    place.gpuRows = Math.min(2, rows("gpu", 2));
    for (let row = 0; row < place.gpuRows; row++) { place.lanes.set("gpu" + row, y); y += height + 1; }
    for (const stream of tree.streams) { place.lanes.set("k" + stream.track, y); y += height + 1; }
  }
  place.cpuRows = cpuRows;
  place.all = y + 5;
  return place;
}

/**
 * Draws everything, and returns the areas that can be clicked, the last drawn on top.
 *
 * @param {HTMLCanvasElement} canvas @param {StepScreen} screen @param {View} view @param {Slices} tree
 * @param {StepState} state @param {Paints} paints @param {Layout} place @returns {Drawing}
 */
function hotlineDraw(canvas, screen, view, tree, state, paints, place) {
  const context = hotlineContext(canvas), scale = devicePixelRatio || 1, width = canvas.clientWidth;
  canvas.style.height = place.all + "px";
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(place.all * scale);
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.fillStyle = paints.paper;
  context.fillRect(0, 0, width, place.all);
  const { gutter, room, height } = place, right = gutter + room;
  /** @type {Hit[]} */
  const hits = [];
  const longest = Math.max(...screen.views.map((each) => each.span), 1);
  const X = (/** @type {number} */ time) => gutter + (time / longest) * room;
  const Z = (/** @type {number} */ time) => gutter + ((time - state.from) / (state.until - state.from)) * room;
  const words = (/** @type {number} */ ns) => hotlineWords.duration(ns, screen.units);
  /** @type {(text: string, size: number, bold?: boolean) => number} */
  const measure = (text, size, bold) => {
    context.font = `${bold ? "600 " : ""}${size}px ${HOTLINE_FONT}`;
    return context.measureText(text).width;
  };
  /**
   * @param {string} text @param {number} x @param {number} y @param {number} [most] of its width; longer text is cut
   * @param {{size?: number, bold?: boolean, color?: string, align?: CanvasTextAlign}} [how]
   */
  function write(text, x, y, most, { size = 12, bold = false, color = paints.ink, align = "left" } = {}) {
    let said = text;
    const own = measure(said, size, bold);
    if (most !== undefined && own > most) {
      const letters = Math.floor((said.length * most) / own) - 1;
      if (letters < 4) return;
      said = said.slice(0, letters) + "…";
    }
    context.fillStyle = color;
    context.textBaseline = "middle";
    context.textAlign = align;
    context.fillText(said, x, y);
  }
  /**
   * Writes on a plain ground, and returns whether there is room.
   *
   * @param {string} text @param {number} x @param {number} y @param {number} most @param {string} color
   */
  function plate(text, x, y, most, color, size = 12) {
    const own = measure(text, size, true) + 10;
    if (own > most) return false;
    context.fillStyle = paints.paper;
    context.fillRect(x, y - 9, own, 18);
    write(text, x + 5, y, undefined, { size, bold: true, color });
    return true;
  }
  /**
   * @param {number} y @param {number} from @param {number} until @param {(time: number) => number} at
   * @param {number} count about how many ticks
   */
  function axis(y, from, until, at, count) {
    const raw = (until - from) / count, power = 10 ** Math.floor(Math.log10(raw));
    const size = Math.max(1, ([1, 2, 5, 10].find((each) => each * power >= raw) ?? 10) * power);
    const [unit, name] = screen.units.findLast(([each]) => each <= Math.max(until, 1)) ?? screen.units[0];
    const digits = Math.min(3, Math.max(0, -Math.floor(Math.log10(size / unit) + 1e-9)));
    for (let time = Math.ceil(from / size) * size; time <= until; time += size) {
      const x = at(time);
      context.fillStyle = paints.soft;
      context.fillRect(x, y, 1, 5);
      if (x + 50 < right + 12) write(`${(time / unit).toFixed(digits)} ${name}`, x + 3, y + 8, undefined, { size: 11, color: paints.soft });
    }
  }
  const hue = (/** @type {string} */ phase) => HOTLINE_HUES[phase] ?? HOTLINE_HUES.other;
  /** The height at which a lane begins. The layout has it. @param {string} lane */
  const rowOf = (lane) => /** @type {number} */ (place.lanes.get(lane));
  const spans = (/** @type {number} */ action) => view.spans[action] ?? [];

  // The strip of all counted steps.
  if (place.strip >= 0) {
    const total = screen.strip.reduce((sum, [, length]) => sum + length, 0);
    let x = gutter;
    write(`${screen.strip.length} steps`, 10, place.strip + 8, gutter - 12, { color: paints.soft });
    for (const [step, length, kind] of screen.strip) {
      const own = (length / total) * room, shown = step === view.step, same = kind === view.kind;
      context.fillStyle = same && screen.views.length > 1 ? paints.mix(paints.computation, paints.paper, 0.22) : paints.panel;
      context.fillRect(x, place.strip, Math.max(1, own - 2), 15);
      context.strokeStyle = shown ? paints.ink : paints.line;
      context.lineWidth = shown ? 2 : 1;
      if (own > 5 || shown) context.strokeRect(x + 1, place.strip + 1, Math.max(1, own - 4), 13);
      context.lineWidth = 1;
      if (measure(words(length), 11, shown) + 10 < own) {
        write(words(length), x + 5, place.strip + 8, own - 8, { size: 11, bold: shown, color: shown ? paints.ink : paints.soft });
      }
      hits.push({ x, y: place.strip, w: own, h: 15, step, kind });
      x += own;
    }
  }

  // The bars of the step.
  const overlay = screen.hot ? [] : view.cause.length || screen.cause ? view.cause : screen.actions.length ? spans(0) : [];
  for (const { device, late, y } of place.bars) {
    const own = place.barHeight, end = X(view.span);
    context.fillStyle = paints.panel;
    context.fillRect(gutter, y, end - gutter, own);
    if (device === null) {
      write(late ? `Rank ${late.rank}` : "CPU", 10, y + own / 2 - 7, gutter - 14, { size: 13, bold: true });
      write(late ? "comes last" : "main thread", 10, y + own / 2 + 9, gutter - 14, { color: paints.soft });
      const onTop = late ? [] : overlay.filter((each) => each[3] === 0), covered = onTop.reduce((sum, each) => sum + each[1] - each[0], 0);
      const solid = !place.devices.length && (screen.cause !== "" || covered > 0.3 * view.span);
      const isFree = (/** @type {number} */ x, /** @type {number} */ own) => !solid || onTop.every(([from, until]) => X(until) < x || X(from) > x + own);
      for (const run of hotlineRuns(view, late?.bars)) {
        const x = X(run.from), wide = Math.max(1, X(run.until) - x), isHot = [run.bar.state, run.bar.wait].includes(screen.hot);
        const waits = run.bar.wait !== null || (isHot && run.bar.state === "load_data");
        context.fillStyle = waits ? (isHot ? paints.hotHatch : paints.waitHatch) : isHot ? paints.hotPaper : paints.mix(hue(run.bar.state), paints.tint, paints.weight);
        context.fillRect(x, y, wide, own);
        if (!waits) { context.fillStyle = isHot ? paints.hot : hue(run.bar.state); context.fillRect(x, y + own - 4, wide, 4); }
        if (wide > 4) { context.fillStyle = paints.paper; context.fillRect(x + wide - 1, y, 1, own); }
        const name = run.bar.wait ? screen.waits[run.bar.wait] : run.bar.state.replace(/_/g, " ");
        const said = `${name} · ${words(run.time)}`;
        if (waits) plate(said, x + 4, y + own / 2, wide - 8, isHot ? paints.hot : paints.ink, 13) || plate(name, x + 4, y + own / 2, wide - 8, isHot ? paints.hot : paints.ink, 13);
        else if (wide > 26 && isFree(x, Math.min(wide, measure(said, 13) + 10))) write(measure(said, 13) + 10 < wide ? said : name, x + 5, y + (onTop.length && !solid ? own * 0.28 : own / 2 - 2), wide - 8, { size: 13 });
      }
      for (const [from, until] of onTop) {
        const x = X(from), wide = Math.max(2, X(until) - x);
        context.fillStyle = solid ? paints.hotPaper : paints.hotHatch;
        context.fillRect(x, solid ? y : y + own * 0.56, wide, solid ? own : own * 0.44);
        if (solid) { context.fillStyle = paints.hot; context.fillRect(x, y + own - 5, wide, 5); }
      }
      if (solid && onTop.length) {
        // The label is as wide as the longest run of pieces without a visible gap. Its time is the time of these pieces.
        let run = { from: 0, until: -Infinity, time: 0 }, longest = run;
        for (const [from, until] of onTop) {
          run = X(from) - X(run.until) < 3 ? { from: run.from, until, time: run.time + until - from } : { from, until, time: until - from };
          if (run.until - run.from > longest.until - longest.from || longest.time === 0) longest = run;
        }
        const name = screen.cause || screen.actions[0].where || screen.actions[0].title, whole = `${name} · ${words(longest.time)}`;
        const x = X(longest.from) + 6, wide = X(longest.until) - X(longest.from) - 10;
        write(measure(whole, 13, true) < wide ? whole : name, x, y + own / 2 - 2, wide, { size: 13, bold: true, color: paints.hot });
      }
    } else {
      write(place.devices.length > 1 ? `GPU ${device}` : "GPU", 10, y + own / 2 - 7, gutter - 14, { size: 13, bold: true });
      write("busy, idle", 10, y + own / 2 + 9, gutter - 14, { color: paints.soft });
      const bars = view.bars.filter((bar) => bar.device === device);
      const order = (/** @type {Bar} */ bar) => (HOTLINE_WORK.includes(bar.state) ? HOTLINE_WORK.indexOf(bar.state) : bar.state === screen.hot ? 3 : 4);
      bars.sort((a, b) => order(a) - order(b));
      const columns = Math.max(1, Math.min(view.bins, Math.floor((end - gutter) / 2.5))), below = new Float64Array(columns);
      const column = (/** @type {number} */ bin) => Math.min(columns - 1, Math.floor(((bin + 0.5) / view.bins) * columns));
      const each = new Float64Array(columns);
      for (let bin = 0; bin < view.bins; bin++) each[column(bin)]++;
      for (const bar of bars) {
        const share = new Float64Array(columns);
        for (let bin = 0; bin < bar.share.length; bin++) share[column(bin)] += bar.share[bin];
        context.fillStyle = hotlineFill(paints, bar.state, screen.hot);
        context.beginPath();
        for (let at = 0; at < columns; at++) {
          const part = share[at] / each[at] / 1000;
          if (part <= 0.004) continue;
          const x = gutter + (at * (end - gutter)) / columns, next = gutter + ((at + 1) * (end - gutter)) / columns;
          const top = Math.min(1, below[at] + part);
          context.rect(x, y + own * (1 - top), next - x, own * (top - below[at]));
          below[at] = top;
        }
        context.fill();
      }
      let long = [0, 0, 0, 0];
      for (const each of view.idle) if (each[0] === device && each[2] > long[2]) long = each;
      const cause = view.causes[long[3]];
      if (long[2] > 0) plate(`${screen.words[cause] ?? cause} · ${words(long[2])}`, X(long[1]) + 6, y + own / 2, X(long[1] + long[2]) - X(long[1]) - 12, cause === screen.hot ? paints.hot : paints.ink);
    }
    context.strokeStyle = paints.mix(paints.ink, paints.paper, 0.35);
    context.strokeRect(gutter + 0.5, y + 0.5, Math.max(1, end - gutter - 1), own - 1);
    hits.push({ x: gutter, y, w: end - gutter, h: own, bar: device });
  }
  axis(place.axis, 0, longest, X, width < 620 ? 4 : 6);

  // What `show` lights up, and the part that is zoomed in.
  const lit = state.show === null ? [] : spans(state.show);
  for (const [from, until, , gpu] of lit) {
    const y = (gpu && place.bars.length > 1 ? place.bars[1].y : place.bars[0].y) - 3;
    context.fillStyle = paints.hot;
    context.fillRect(X(from), y, Math.max(1.5, X(until) - X(from)), 4);
  }
  const top = place.bars[0].y - 2, bottom = place.axis - 2, isWhole = state.from <= 0 && state.until >= view.span;
  if (isWhole) {
    context.fillStyle = paints.panel;
    context.fillRect(gutter, place.funnel + 3, room, place.top - place.funnel + 11);
    write(width < 620 ? "drag across the bars to zoom" : "drag across the bars above, or turn the wheel below, to zoom in", gutter + room / 2, place.funnel + 15, room, { color: paints.soft, align: "center" });
  } else {
    const x = X(state.from), wide = Math.max(3, X(state.until) - x);
    context.fillStyle = paints.panel;
    context.beginPath();
    context.moveTo(x, place.funnel - 2);
    context.lineTo(x + wide, place.funnel - 2);
    context.lineTo(right, place.top);
    context.lineTo(right, place.top + 16);
    context.lineTo(gutter, place.top + 16);
    context.lineTo(gutter, place.top);
    context.fill();
    context.strokeStyle = paints.ink;
    context.lineWidth = 2.5;
    context.strokeRect(x, top, wide, bottom - top);
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, bottom);
    context.lineTo(x, place.funnel - 2);
    context.lineTo(gutter, place.top);
    context.moveTo(x + wide, bottom);
    context.lineTo(x + wide, place.funnel - 2);
    context.lineTo(right, place.top);
    context.stroke();
    axis(place.top, state.from, state.until, Z, width < 620 ? 4 : 8);
  }

  // The rows below.
  context.save();
  context.beginPath();
  context.rect(gutter, place.top + 16, room, place.all);
  context.clip();
  for (const [device, at, length, number] of view.idle) {
    const lane = tree.streams.length ? place.lanes.get("k" + tree.streams[0].track) : undefined;
    if (lane === undefined || device !== place.devices[0] || at + length < state.from || at > state.until) continue;
    const x = Math.max(gutter, Z(at)), wide = Math.max(0.6, Math.min(right, Z(at + length)) - x), cause = view.causes[number];
    context.fillStyle = hotlineFill(paints, cause, screen.hot);
    context.fillRect(x, lane, wide, height);
    if (wide > 70) plate(screen.titles[cause] ?? `idle: ${cause}`, x + 4, lane + height / 2, wide - 8, cause === screen.hot ? paints.hot : paints.ink) || plate("idle", x + 4, lane + height / 2, wide - 8, cause === screen.hot ? paints.hot : paints.ink);
    hits.push({ x, y: lane, w: Math.max(3, wide), h: height, idle: [at, length, cause] });
  }
  const query = state.query;
  /**
   * Draws a slice, or several `members` as one up to `next`, the start of the slice after them.
   *
   * @param {Slice} slice @param {number} from @param {number} until @param {string} label @param {number} time
   * @param {number} y @param {Slice[]} members @param {number} next
   */
  function draw(slice, from, until, label, time, y, members, next) {
    const x = Math.max(Z(from), gutter - 2), wide = Math.max(0.8, Math.min(Z(until), right + 2) - x);
    let ink = paints.ink, kernel = "";
    if (slice.leaf) {
      kernel = /nccl|rccl|hccl|oneccl/i.test(slice.label) ? "communication" : /^(Memcpy|Memset)/i.test(slice.label) ? "memory" : "computation";
      context.fillStyle = hotlineFill(paints, kernel, "");
      ink = kernel === "computation" ? paints.paper : "#101418";
    } else {
      const paler = [1, 0.85, 0.7, 0.58, 0.48, 0.42, 0.38][slice.row] ?? 0.38;
      context.fillStyle = paints.mix(hue(slice.phase), paints.tint, paints.weight * paler + 0.06);
    }
    context.fillRect(x, y, wide, height);
    if (wide > 3) {
      context.strokeStyle = slice.leaf ? paints.paper : paints.mix(hue(slice.phase), paints.ink, 0.6);
      context.lineWidth = 0.6;
      context.strokeRect(x + 0.3, y + 0.3, wide - 0.6, height - 0.6);
    }
    if (query && members.some((each) => state.found.has(each))) {
      context.strokeStyle = paints.hot;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, Math.max(2, wide - 2), height - 2);
    }
    const isSelected = state.selected !== null && members.includes(state.selected);
    if (isSelected) {
      context.strokeStyle = paints.ink;
      context.lineWidth = 2.5;
      context.strokeRect(x + 1, y + 1, Math.max(2, wide - 2), height - 2);
    }
    context.lineWidth = 1;
    if (wide > 24) {
      const free = Math.min(wide, Z(next) - x), whole = `${label} · ${words(time)}`, last = /\.py\(\d+\): /.test(label) ? label.replace(/^.*\.py\(\d+\): /, "") : label.replace(/^autograd: /, "").replace(/^.*[.:](?=\w)/, "");
      const size = free < 60 ? 11 : 12, pad = free < 60 ? 4 : 8;
      const said = [whole, label, last].find((each) => measure(each, size) + pad < free) ?? last;
      if (kernel === "communication") {  // a plain ground, because letters on stripes are hard to read
        context.fillStyle = paints.communication;
        context.fillRect(x + 1, y + 3, Math.max(0, Math.min(wide - 2, measure(said, size) + pad)), height - 6);
      }
      write(said, x + pad / 2, y + height / 2 + 0.5, free - pad + 2, { size, color: ink, bold: isSelected });
    }
    hits.push({ x, y, w: Math.max(3, wide), h: height, slice, members, from, until, label, time });
  }
  /** @type {Map<string, Slice[]>} */
  const lanes = new Map();
  for (const slice of tree.slices) {
    if (slice.end < state.from || slice.start > state.until || !place.lanes.has(slice.lane)) continue;
    const others = lanes.get(slice.lane);
    if (others) others.push(slice);
    else lanes.set(slice.lane, [slice]);
  }
  for (const [lane, slices] of lanes) {
    const y = rowOf(lane), px = (/** @type {Slice} */ slice) => Z(slice.end) - Z(slice.start);
    for (let at = 0; at < slices.length; at++) {
      // Equal neighbours that are narrow are one with their count; what is thinner than a pixel is merged with its like.
      let to = at, end = slices[at].end, time = slices[at].time;
      const thin = px(slices[at]) < 2, most = thin ? 2 : slices[at].kind === "python" ? 44 : 9;
      while (to + 1 < slices.length && px(slices[at]) < most && px(slices[to + 1]) < most &&
        (thin ? Z(slices[to + 1].start) - Z(end) < 1 && Z(end) - Z(slices[at].start) < 12 : slices[to + 1].label === slices[at].label && Z(slices[to + 1].start) - Z(end) < 4)) {
        to++;
        end = Math.max(end, slices[to].end);
        time += slices[to].time;
      }
      const members = slices.slice(at, to + 1);
      if (members.length === 1 || (!thin && members.length < 4)) draw(slices[at], slices[at].start, slices[at].end, slices[at].label, slices[at].time, y, [slices[at]], slices[at + 1]?.start ?? Infinity);
      else {
        const same = members.every((each) => each.label === members[0].label);
        draw(slices[at], slices[at].start, end, same ? `${members[0].label} × ${members.length}` : `${members.length} slices`, time, y, members, slices[to + 1]?.start ?? Infinity);
        at = to;
      }
    }
  }
  for (const [from, until, , gpu] of lit) {
    if (until < state.from || from > state.until) continue;
    const lane = gpu && tree.streams.length ? rowOf("k" + tree.streams[0].track) : place.first;
    context.fillStyle = paints.hot;
    context.fillRect(Z(from), lane - 4, Math.max(1.5, Z(until) - Z(from)), 4);
    if (!gpu && place.cpuRows) {
      context.fillStyle = paints.hot + "38";
      context.fillRect(Z(from), lane, Math.max(1, Z(until) - Z(from)), place.cpuRows * (height + 1) - 1);
    }
  }
  if (state.range) {
    const [from, until] = state.range;
    context.fillStyle = paints.mix(paints.hot, paints.paper, 0.5) + "40";
    context.fillRect(Z(from), place.top + 16, Z(until) - Z(from), place.all);
  }
  context.restore();
  if (place.cpuRows) {
    write("CPU", 10, place.first + 10, gutter - 14, { size: 13, bold: true });
    write("modules, ops", 10, place.first + 26, gutter - 14, { color: paints.soft });
  }
  if (tree.streams.length) {
    const first = place.lanes.get("gpu0") ?? rowOf("k" + tree.streams[0].track);
    write("GPU", 10, first + height / 2, 34, { size: 13, bold: true });
    for (const stream of tree.streams) write(stream.name, place.gpuRows ? 10 : 44, rowOf("k" + stream.track) + height / 2, gutter - (place.gpuRows ? 14 : 48), { color: paints.soft });
  }
  return { hits, time: (x) => state.from + ((x - gutter) / room) * (state.until - state.from), whole: (x) => ((x - gutter) / room) * longest };
}
