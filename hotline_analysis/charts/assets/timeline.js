// The multi-scale timeline: each level shows the children of what was opened above, at full width.
//
// All names come from a trace and are untrusted: they are set as text, never as markup. The page holds the tree of
// `level_of_detail` (`hotline queries level_of_detail`) as columns; a node is a position in them.
"use strict";

/** @param {HTMLElement} root @param {StepTree} data */
function hotlineTimeline(root, data) {
  const nodes = data.nodes, sides = data.sides, count = nodes.parent.length;
  /** @type {number[][]} */
  const children = Array.from({ length: count }, () => []);
  /** @type {number[][]} */
  const sidesOf = Array.from({ length: count }, () => []);
  for (let n = 0; n < count; n++) if (nodes.parent[n] >= 0) children[nodes.parent[n]].push(n);
  for (let s = 0; s < sides.node.length; s++) sidesOf[sides.node[s]].push(s);
  const idleOf = (/** @type {number} */ track) => data.idle[String(data.tracks[track].gpu)] ?? [];
  const isGpu = (/** @type {number} */ s) => data.tracks[sides.track[s]].device === "gpu";
  const cpu = new Float64Array(count), gpu = new Float64Array(count), busy = new Float64Array(count);
  const idle = new Float64Array(count), works = new Float64Array(count);
  for (let s = 0; s < sides.node.length; s++) {
    const n = sides.node[s];
    if (isGpu(s)) {
      gpu[n] += sides.time[s]; busy[n] += sides.busy[s]; idle[n] += sides.idle[s]; works[n] += sides.count[s];
    } else cpu[n] = Math.max(cpu[n], sides.time[s]);
  }
  const longest = (/** @type {number} */ n) => Math.max(cpu[n], gpu[n]);
  const state = { path: data.chain.slice(), device: "all", every: false, color: "phase", query: "" };

  // --- words

  /** As `duration` in text/formats.py. @param {number} ns */
  function duration(ns) {
    const rounded = (/** @type {number} */ digits, /** @type {number} */ size) => Math.floor((ns * 10 ** digits) / size + 0.5);
    const [size, unit] = data.units.findLast(([size]) => rounded(3, size) >= 1000) ?? data.units[0];
    const digits = size === 1 ? 0 : [2, 1].find((each) => rounded(each, size) < 1000) ?? 0;
    const value = rounded(digits, size) / 10 ** digits;
    const shown = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    return value.toLocaleString("en", shown) + " " + unit;
  }
  const percent = (/** @type {number} */ part, /** @type {number} */ whole) => (whole > 0 ? ((100 * part) / whole).toFixed(1) + " %" : "–");
  function label(/** @type {number} */ n) {
    const name = data.names[nodes.name[n]];
    const kind = data.kinds[nodes.kind[n]];
    if (kind === "phase") return name.replace(/_/g, " ");
    if (kind !== "group") return name;
    const others = nodes.names[n] - 1;
    if (others === 0) return `${name} × ${nodes.members[n]}`;
    return `${name} ${Math.round(nodes.pct[n])} % and ${others} other${others === 1 ? "" : "s"}`;
  }
  // Who bounds a node is said by `bound_by` in answers/detail.py; here are only its words.
  function boundBy(/** @type {number} */ n) {
    const observed = busy[n] + idle[n];
    if (!(observed > 0)) return "CPU, there is no GPU work";
    return nodes.bound[n] ? "GPU" : `waits: the GPU is idle for ${percent(idle[n], observed)} of its time`;
  }
  function boundShort(/** @type {number} */ n) {
    const observed = busy[n] + idle[n];
    if (!(observed > 0)) return "CPU only";
    return nodes.bound[n] ? "GPU-bound" : `GPU waits ${percent(idle[n], observed)}`;
  }
  function first(/** @type {number} */ n, /** @type {"cpu" | "gpu"} */ device) {
    let start = Infinity;
    for (const s of sidesOf[n]) if (isGpu(s) === (device === "gpu")) start = Math.min(start, sides.start[s]);
    return start;
  }
  function facts(/** @type {number} */ n) {
    const kind = data.kinds[nodes.kind[n]], parent = nodes.parent[n];
    /** @type {[name: string, value: string][]} */
    const rows = [];
    const say = (/** @type {string} */ name, /** @type {string} */ value) => rows.push([name, value]);
    const full = nodes.full[n] >= 0 ? data.names[nodes.full[n]] : null;
    if (full !== null && full !== data.names[nodes.name[n]]) say("full name", full);
    say("kind", kind === "group" ? `${nodes.members[n]} neighbours, grouped` : kind === "python" ? "python, without an op" : kind);
    if (nodes.path[n] >= 0) say("module", data.names[nodes.path[n]] + (nodes.pass[n] >= 0 ? ` (${data.passes[nodes.pass[n]]})` : ""));
    if (nodes.source[n] >= 0) say("code", data.sources[nodes.source[n]].place);
    if (nodes.phase[n] >= 0) say("phase", data.phases[nodes.phase[n]].replace(/_/g, " "));
    if (cpu[n] > 0) {
      let inside = 0, beside = 0;
      const others = new Set();
      for (const child of children[n]) {
        for (const s of sidesOf[child]) {
          if (isGpu(s)) continue;
          if (onTrackOf(n, s)) inside += sides.time[s];
          else { beside += sides.time[s]; others.add(data.tracks[sides.track[s]].name); }
        }
      }
      say("CPU time", duration(cpu[n]));
      // Backward waits on its own thread while its parts run on that of autograd.
      if (beside > inside) say("most of it runs on", [...others].slice(0, 3).join(", "));
      else if (children[n].length) say("self time, in no part", duration(Math.max(0, cpu[n] - inside)));
    }
    if (gpu[n] > 0) {
      say("GPU time", `${duration(gpu[n])} in ${works[n].toLocaleString("en")} ${works[n] === 1 ? "kernel or copy" : "kernels and copies"}`);
      if (idle[n] > 0) say("GPU waited for it", duration(idle[n]));
      const delay = first(n, "gpu") - first(n, "cpu");
      if (isFinite(delay) && delay >= 0) say("GPU starts", duration(delay) + " after the CPU");
    }
    if (parent >= 0) say("share of " + label(parent), percent(longest(n), longest(parent)));
    say("share of the step", percent(longest(n), longest(rootOf(n))));
    say("bound by", boundBy(n));
    if (nodes.event[n] >= 0) say("event", String(nodes.event[n]));
    if (nodes.gpuEvent[n] >= 0) say("GPU event", String(nodes.gpuEvent[n]));
    return rows;
  }
  function onTrackOf(/** @type {number} */ n, /** @type {number} */ side) {
    let best = -1;
    for (const s of sidesOf[n]) if (!isGpu(s) && (best < 0 || sides.time[s] > sides.time[best])) best = s;
    return best >= 0 && sides.track[best] === sides.track[side];
  }
  function rootOf(/** @type {number} */ n) { while (nodes.parent[n] >= 0) n = nodes.parent[n]; return n; }

  // --- colours: hues that people with any kind of colour vision can tell apart (Okabe and Ito), lighter for less time

  const HUES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#f0e442", "#999999"];
  /** @type {Record<string, number>} */
  const PHASES = { load_data: 1, forward: 0, loss: 3, zero_grad: 5, backward: 4, clipping: 6, optimizer: 2, other: 7 };
  /** @type {Map<string, string>} */
  const typeHue = new Map();
  function hueOf(/** @type {number} */ n) {
    if (state.color === "phase") return HUES[nodes.phase[n] < 0 ? 7 : PHASES[data.phases[nodes.phase[n]]] ?? 7];
    if (state.color === "share") return "#d55e00";
    const kind = data.kinds[nodes.kind[n]];
    const key = data.names[nodes.name[n]].replace(/_?\d+$/, "") || kind;
    const hue = typeHue.get(key) ?? HUES[typeHue.size % (HUES.length - 1)];
    typeHue.set(key, hue);
    return hue;
  }
  function colorOf(/** @type {number} */ n, /** @type {number} */ whole) {
    const hue = hueOf(n), weight = state.color === "type" ? 1 : 0.3 + 0.7 * Math.min(1, longest(n) / (0.5 * whole || 1));
    const mix = [1, 3, 5].map((at) => {
      const part = parseInt(hue.slice(at, at + 2), 16);
      return Math.round(part * weight + 245 * (1 - weight));
    });
    // White or dark, whatever has more contrast (WCAG's relative luminance).
    const [r, g, b] = mix.map((part) => (part /= 255) <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    const light = 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
    return [`rgb(${mix.join(",")})`, 1.05 / light > light / 0.057 ? "#ffffff" : "#101418"];
  }

  // --- the page

  /** @type {<Tag extends keyof HTMLElementTagNameMap>(tag: Tag, name?: string, text?: string) => HTMLElementTagNameMap[Tag]} */
  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  /** @type {(inside: ParentNode, selector: string) => HTMLElement | null} */
  const pick = (inside, selector) => inside.querySelector(selector);
  /** @type {(inside: ParentNode, selector: string) => NodeListOf<HTMLElement>} */
  const all = (inside, selector) => inside.querySelectorAll(selector);
  const levelOf = (/** @type {Element} */ inside) => /** @type {HTMLElement} */ (inside.closest(".hl-level"));
  root.classList.add("hl-timeline");
  root.replaceChildren();
  const bar = make("div", "hl-bar");
  const search = make("input");
  search.type = "search";
  search.placeholder = "search names ( / )";
  search.setAttribute("aria-label", "Search names in the timeline");
  bar.append(search);
  /** @param {string} name @param {[value: string, text: string][]} values @param {(value: string) => void} on */
  function choice(name, values, on) {
    const select = make("select");
    select.setAttribute("aria-label", name);
    for (const [value, text] of values) {
      const option = make("option", "", text);
      option.value = value;
      select.append(option);
    }
    select.addEventListener("change", () => { on(select.value); draw(); });
    const wrapped = make("label", "", name + " ");
    wrapped.append(select);
    bar.append(wrapped);
  }
  choice("show", [["all", "CPU and GPU"], ["longest", "longest"], ["cpu", "CPU"], ["gpu", "GPU"]],
    (value) => { state.device = value; });
  choice("colour", [["phase", "phase, darker for more time"], ["type", "module or op"], ["share", "share of time"]],
    (value) => { state.color = value; });
  const every = make("input");
  every.type = "checkbox";
  every.addEventListener("change", () => { state.every = every.checked; draw(); });
  const everyLabel = make("label", "");
  everyLabel.append(every, "all threads and streams");
  bar.append(everyLabel, make("span", "", "click opens · ← → siblings · ↑ ↓ levels · Esc closes"));
  const status = make("div", "hl-bar");
  status.setAttribute("role", "status");
  const results = make("ul", "hl-results");
  const crumbs = make("ol", "hl-crumbs");
  crumbs.setAttribute("aria-label", "Opened");
  const levels = make("div", "hl-levels");
  const legend = make("div", "hl-legend");
  const details = make("section", "hl-details");
  details.setAttribute("aria-live", "polite");
  const tip = make("div", "hl-tip");
  tip.hidden = true;
  tip.setAttribute("role", "tooltip");
  root.append(bar, status, results, crumbs, levels, legend, details, tip);

  function list(/** @type {number} */ n) {
    const rows = make("dl", "hl-facts");
    for (const [name, value] of facts(n)) rows.append(make("dt", "", name), make("dd", "", value));
    return rows;
  }
  function line(/** @type {number} */ n) {
    const text = nodes.source[n] >= 0 ? data.sources[nodes.source[n]].line : "";
    return text ? [make("code", "hl-line", text)] : [];
  }
  function showTip(/** @type {HTMLElement} */ element, /** @type {number} */ n) {
    tip.replaceChildren(make("b", "", label(n)), ...line(n), list(n));
    if (children[n].length) tip.append(make("div", "", `${children[n].length} parts inside: click to open`));
    tip.hidden = false;
    const box = element.getBoundingClientRect(), own = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(box.left, innerWidth - own.width - 8)) + "px";
    tip.style.top = (box.bottom + own.height + 8 < innerHeight ? box.bottom + 6 : Math.max(4, box.top - own.height - 6)) + "px";
  }
  const hideTip = () => { tip.hidden = true; };

  function open(/** @type {number} */ n, /** @type {number} */ level) {
    hideTip();
    state.path = state.path.slice(0, level + 1);
    state.path.push(n);
    draw();
    focusSlice(n);
  }
  function focusSlice(/** @type {number} */ n) {
    pick(levels, `[data-node="${n}"]`)?.focus({ preventScroll: true });
  }
  function openTo(/** @type {number} */ n) {
    const path = [];
    for (let at = n; at >= 0; at = nodes.parent[at]) path.unshift(at);
    state.path = path;
    draw();
    focusSlice(n);
  }

  function tracksOf(/** @type {number} */ level) {
    const parent = state.path[level];
    /** @type {Map<number, number[]>} */
    const byTrack = new Map();
    for (const child of children[parent]) {
      for (const s of sidesOf[child]) {
        if (state.device === "cpu" ? isGpu(s) : state.device === "gpu" && !isGpu(s)) continue;
        const others = byTrack.get(sides.track[s]);
        if (others) others.push(s);
        else byTrack.set(sides.track[s], [s]);
      }
    }
    /** @type {Row[]} */
    let tracks = [...byTrack].map(([track, inside]) => {
      const own = sidesOf[parent].find((s) => sides.track[s] === track);
      let start = own === undefined ? Infinity : sides.start[own];
      let end = own === undefined ? -Infinity : sides.start[own] + sides.dur[own];
      let time = 0;
      for (const s of inside) {
        start = Math.min(start, sides.start[s]);
        end = Math.max(end, sides.start[s] + sides.dur[s]);
        time += sides.time[s];
      }
      return { track, sides: inside, start, end, ownStart: start, ownEnd: end, time, device: data.tracks[track].device };
    });
    if (state.device === "longest" && tracks.length) {
      // What takes most time in this level: the resource that bounds it.
      const most = Math.max(...tracks.map((one) => one.time));
      tracks = tracks.filter((one) => one.time === most).slice(0, 1);
    } else if (!state.every) {
      // The busiest thread, and the busiest stream with one beside it that matters, such as that of the communication.
      tracks.sort((a, b) => b.time - a.time);
      /** @type {Map<string, Row[]>} */
      const best = new Map();
      tracks = tracks.filter((one) => {
        const before = best.get(one.device) || [];
        best.set(one.device, [...before, one]);
        return !before.length || (one.device === "gpu" && before.length === 1 && one.time >= 0.1 * before[0].time);
      });
    }
    const rank = (/** @type {Row} */ one) => (one.device === "cpu" ? 0 : 1);
    return tracks.sort((a, b) => rank(a) - rank(b) || b.time - a.time);
  }

  /**
   * What the names of a level begin with tells none apart: of all of them up to a dot, a slash or a colon, or of half.
   *
   * @param {string[]} names
   */
  function sharedBy(names) {
    if (names.length < 2) return "";
    const common = names.reduce((a, b) => { let at = 0; while (at < a.length && a[at] === b[at]) at++; return a.slice(0, at); });
    const ends = [".", "/", ": ", "::"].map((end) => (common.includes(end) ? common.lastIndexOf(end) + end.length : 0));
    const whole = common.slice(0, Math.max(...ends));
    if (whole && names.every((name) => name.length > whole.length)) return whole;
    const count = new Map();
    for (const name of names) {
      const begin = name.slice(0, name.indexOf(": ") + 2);
      if (begin.length > 2 && begin.length < name.length) count.set(begin, (count.get(begin) || 0) + 1);
    }
    const [most, times] = [...count].sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
    return times >= 2 && times >= names.length / 2 ? most : "";
  }
  function drawLevel(/** @type {number} */ level) {
    const parent = state.path[level], tracks = tracksOf(level);
    const box = make("section", "hl-level");
    box.dataset.level = String(level);
    const shared = sharedBy([...new Set(tracks.flatMap((one) => one.sides.map((s) => label(sides.node[s]))))]);
    box.dataset.shared = shared;
    const head = make("div", "hl-head"), title = make("b", "");
    title.append(make("span", "hl-number", String(level + 1)), label(parent));
    title.title = label(parent);
    const times = [cpu[parent] > 0 ? "CPU " + duration(cpu[parent]) : "", gpu[parent] > 0 ? "GPU " + duration(gpu[parent]) : ""];
    head.append(title, make("span", "", times.filter(Boolean).join(" · ")), make("br"),
      make("span", "", `${percent(longest(parent), longest(rootOf(parent)))} of step · ${boundShort(parent)}`));
    if (shared) head.append(make("br"), make("span", "hl-shared", `names without “${shared.trim()}”`));
    const body = make("div", "hl-tracks");
    box.append(head, body);
    // The rows of the first level share their time, so that it shows when the GPU has nothing to do.
    const together = level === 0;
    if (together && tracks.length) {
      const from = Math.min(...tracks.map((one) => one.start)), until = Math.max(...tracks.map((one) => one.end));
      for (const one of tracks) Object.assign(one, { start: from, end: until });
    }
    const span = Math.max(1, ...tracks.map((one) => one.end - one.start));
    const cpuStart = Math.min(...tracks.filter((one) => one.device === "cpu").map((one) => one.start));
    for (const one of tracks) {
      const row = make("div", "hl-row"), name = make("div", "hl-row-name");
      const late = one.device === "gpu" && isFinite(cpuStart) ? one.start - cpuStart : 0;
      name.append(make("b", "", one.device.toUpperCase()), late > 0 ? ` +${duration(late)}` : "", make("br"),
        data.tracks[one.track].name);
      name.title = `${data.tracks[one.track].name}: ${duration(one.time)}` +
        (late > 0 ? `; starts ${duration(late)} after the CPU` : "");
      const track = make("div", "hl-track"), lane = make("div", "hl-lane"), leaders = make("div", "hl-leaders");
      const whole = make("div", "hl-span");
      whole.style.width = (100 * (one.end - one.start)) / span + "%";
      lane.append(whole);
      if (together && one.device === "cpu") {
        whole.style.left = (100 * (one.ownStart - one.start)) / span + "%";
        whole.style.width = (100 * (one.ownEnd - one.ownStart)) / span + "%";
      } else if (together) {
        whole.classList.add("hl-others");
        for (const part of idleOf(one.track)) lane.append(idlePart(part, one.start, span, "hl-idle"));
      }
      for (const s of one.sides) {
        const n = sides.node[s], slice = make("button", "hl-slice", label(n));
        slice.type = "button";
        slice.dataset.node = String(n);
        // Work that leaves out more than a fifth of its slice does not fill it.
        slice.dataset.time = duration(sides.time[s]) +
          (isGpu(s) && sides.time[s] < 0.8 * sides.dur[s] ? ` in ${duration(sides.dur[s])}` : "");
        slice.style.left = (100 * (sides.start[s] - one.start)) / span + "%";
        slice.style.width = (100 * sides.dur[s]) / span + "%";
        const [paper, ink] = colorOf(n, longest(parent));
        slice.style.background = paper;
        slice.style.color = ink;
        slice.tabIndex = -1;
        slice.setAttribute("aria-label", `${label(n)}, ${one.device.toUpperCase()} ${duration(sides.time[s])}, ` +
          `${percent(longest(n), longest(parent))} of ${label(parent)}`);
        if (!children[n].length) slice.classList.add("hl-leaf");
        if (data.kinds[nodes.kind[n]] === "python") slice.classList.add("hl-python");
        if (state.path[level + 1] === n) {
          slice.classList.add("hl-open");
          if (level + 2 === state.path.length) slice.classList.add("hl-current");
          slice.setAttribute("aria-expanded", "true");
        } else if (children[n].length) slice.setAttribute("aria-expanded", "false");
        if (found.has(n)) slice.classList.add("hl-found");
        slice.addEventListener("click", () => open(n, level));
        slice.addEventListener("mouseenter", () => showTip(slice, n));
        slice.addEventListener("mouseleave", hideTip);
        slice.addEventListener("focus", () => showTip(slice, n));
        slice.addEventListener("blur", hideTip);
        lane.append(slice);
      }
      // Where a slice spans times of an idle GPU, they show at its foot.
      if (together && one.device === "gpu") {
        for (const part of idleOf(one.track)) {
          const [from, until] = [part[0], part[0] + part[1]];
          if (one.sides.some((s) => sides.start[s] < until && sides.start[s] + sides.dur[s] > from)) {
            lane.append(idlePart(part, one.start, span, "hl-foot"));
          }
        }
      }
      const reachable = pick(lane, ".hl-open") ?? pick(lane, ".hl-slice");
      if (reachable) reachable.tabIndex = 0;
      track.append(lane, leaders);
      row.append(name, track);
      body.append(row);
    }
    if (!tracks.length) body.append(make("span", "", "nothing runs inside that the trace shows"));
    else if (together) body.append(axis(span));
    return box;
  }
  /** @param {IdlePart} idle @param {number} from @param {number} span @param {string} kind the class of the element */
  function idlePart([start, length, cause], from, span, kind) {
    const part = make("div", kind), said = `idle ${duration(length)}: ${cause}`;
    part.style.left = (100 * (start - from)) / span + "%";
    part.style.width = (100 * length) / span + "%";
    part.dataset.said = said;
    part.title = said;
    return part;
  }
  /** Ticks of 1, 2 or 5 of a power of ten, about one for every eighth of the width. @param {number} span */
  function axis(span) {
    const row = make("div", "hl-row hl-axis"), ticks = make("div", "hl-track");
    const power = 10 ** Math.floor(Math.log10(span / 8)), size = ([1, 2, 5].find((each) => each * power >= span / 8) ?? 10) * power;
    for (let at = 0; at <= span; at += size) {
      const tick = make("span", "hl-tick", at === 0 ? "0" : duration(at).replace(/\.0+ /, " "));
      tick.style.left = (100 * at) / span + "%";
      if (at > 0.94 * span) tick.classList.add("hl-last");
      ticks.append(tick);
    }
    row.append(make("div", "hl-row-name", ""), ticks);
    return row;
  }

  const measure = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  measure.font = "12px system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif";
  function fitLabels() {
    for (const lane of all(levels, ".hl-lane")) {
      const width = lane.clientWidth, leaders = /** @type {HTMLElement} */ (lane.nextElementSibling);
      const shared = levelOf(lane).dataset.shared ?? "";
      /** @type {[slice: HTMLElement, text: string, width: number][]} */
      const named = [];
      /** @type {[left: number, right: number][][]} */
      const rows = [];
      for (const slice of all(lane, ".hl-slice")) {
        const own = (parseFloat(slice.style.width) / 100) * width;
        const full = label(Number(slice.dataset.node)), name = full.startsWith(shared) ? full.slice(shared.length) : full;
        const whole = `${name} · ${slice.dataset.time}`;
        const room = (/** @type {string} */ text) => 8 + measure.measureText(text).width;
        const fits = own >= Math.min(room(name), 208);
        slice.classList.toggle("hl-thin", own < 26);
        slice.textContent = own >= room(whole) ? whole : fits || own >= 44 ? name : "";
        if (!fits && parseFloat(slice.style.width) >= 2.5) named.push([slice, whole, own]);
      }
      for (const part of all(lane, ".hl-idle")) {
        const own = (parseFloat(part.style.width) / 100) * width, said = part.dataset.said ?? "";
        part.textContent = own >= 8 + measure.measureText(said).width ? said : own >= 60 ? "idle" : "";
      }
      named.sort((a, b) => b[2] - a[2]);
      leaders.replaceChildren();
      for (const [slice, text] of named.slice(0, 8)) {
        const left = (parseFloat(slice.style.left) / 100) * width;
        const room = Math.min(measure.measureText(text).width + 6, 260);
        const from = Math.max(0, Math.min(left, width - room));
        let row = 0;
        while (rows[row] && rows[row].some(([a, b]) => from < b + 6 && from + room > a - 6)) row++;
        if (row > 2) continue;
        (rows[row] = rows[row] || []).push([from, from + room]);
        slice.textContent = "";
        const leader = make("div", "hl-leader", text);
        leader.style.cssText = `left:${from}px;top:${14 * row}px;width:${room}px`;
        leaders.append(leader);
      }
      leaders.style.height = 14 * rows.length + "px";
    }
  }

  /** @type {Set<number>} */
  let found = new Set();
  function find() {
    const query = state.query.trim().toLowerCase();
    found = new Set();
    results.replaceChildren();
    status.textContent = "";
    if (!query) return;
    const hits = data.names.map((name) => name.toLowerCase().includes(query));
    for (let n = 0; n < count; n++) {
      if (hits[nodes.name[n]] || (nodes.full[n] >= 0 && hits[nodes.full[n]]) || label(n).toLowerCase().includes(query)) {
        found.add(n);
      }
    }
    const best = [...found].sort((a, b) => longest(b) - longest(a) || a - b).slice(0, 12);
    status.textContent = found.size
      ? `${found.size.toLocaleString("en")} found, marked in every level. The longest:`
      : "nothing found";
    for (const n of best) {
      const item = make("li"), button = make("button", "", `${label(n)} — ${duration(longest(n))}`);
      button.type = "button";
      button.addEventListener("click", () => openTo(n));
      const way = [];
      for (let at = nodes.parent[n]; at >= 0; at = nodes.parent[at]) way.unshift(label(at));
      button.title = way.join(" › ");
      item.append(button);
      results.append(item);
    }
  }

  function drawDetails() {
    const n = state.path[state.path.length - 1];
    details.replaceChildren(make("h3", "", label(n)), ...line(n), list(n), perfetto(n));
  }
  // What is opened, or the closest around it that is one event, as a file for Perfetto. The page itself asks no network.
  function perfetto(/** @type {number} */ n) {
    let at = n;
    // The event of a phase only shows where it is; it need not last as long.
    while (at >= 0 && (nodes.event[at] < 0 || data.kinds[nodes.kind[at]] === "phase")) at = nodes.parent[at];
    const span = at >= 0 ? nodes.event[at] : data.stepEvent;
    const what = at >= 0 ? label(at) : label(rootOf(n));
    const inside = span < 0 ? "all of it"
      : span === data.stepEvent ? `all of ${what}` : `what ${what} does on its thread, and the GPU work of that`;
    const box = make("div", "hl-perfetto");
    const say = make("div", "", `To see ${inside}, export it (TRACE is the trace or run):`);
    const command = make("pre", "", "hotline export TRACE --format perfetto" +
      (data.rank >= 0 ? ` --rank ${data.rank}` : "") + (span >= 0 ? ` --span ${span}` : "") + " -o part.json.gz");
    command.tabIndex = 0;
    const then = make("div", "", "and open part.json.gz in "), link = make("a", "", "ui.perfetto.dev");
    link.href = "https://ui.perfetto.dev";
    link.target = "_blank";
    link.rel = "noopener noreferrer";
    then.append(link);
    box.append(say, command, then);
    return box;
  }
  function drawLegend() {
    legend.replaceChildren();
    const say = (/** @type {string} */ background, /** @type {string} */ text) => {
      const item = make("span", ""), swatch = make("span", "hl-swatch");
      swatch.style.background = background;
      item.append(swatch, text);
      legend.append(item);
    };
    if (state.color === "phase") {
      const shown = new Set();
      for (let n = 0; n < count; n++) if (nodes.phase[n] >= 0) shown.add(data.phases[nodes.phase[n]]);
      for (const phase of Object.keys(PHASES)) if (shown.has(phase)) say(HUES[PHASES[phase]], phase.replace(/_/g, " "));
    }
    if (state.color === "share") { say("#f0ddd0", "little time"); say("#d55e00", "half of the level or more"); }
    const hatched = "repeating-linear-gradient(135deg, var(--soft) 0 3px, transparent 3px 6px)";
    const onGpu = sides.node.some((_, s) => isGpu(s));
    say(hatched, onGpu ? "the GPU is idle; below the first level, no part of it runs" : "no part of the level runs");
    if (onGpu) {
      say("var(--wait)", "first level: other work of the GPU");
      legend.append(make("span", "", "+ time: below the first level, the GPU's row starts so much later than the CPU's"));
    }
  }
  function draw() {
    state.path = state.path.filter((n) => n >= 0 && n < count);
    crumbs.replaceChildren();
    state.path.forEach((n, level) => {
      const item = make("li"), button = make("button", "", label(n));
      button.type = "button";
      button.addEventListener("click", () => { state.path = state.path.slice(0, level + 1); draw(); });
      item.append(button);
      crumbs.append(item);
    });
    levels.replaceChildren();
    state.path.forEach((n, level) => { if (children[n].length || level === 0) levels.append(drawLevel(level)); });
    drawLegend();
    drawDetails();
    fitLabels();
  }

  levels.addEventListener("keydown", (event) => {
    /** @type {HTMLElement | null} */
    const slice = /** @type {Element} */ (event.target).closest(".hl-slice");
    if (!slice) return;
    const level = Number(levelOf(slice).dataset.level);
    const lane = [...all(/** @type {HTMLElement} */ (slice.parentElement), ".hl-slice")];
    const at = lane.indexOf(slice), boxes = [...levels.children];
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) {
      const next = lane[at + step];
      if (next) {
        // What is open follows along; else only the focus moves.
        if (slice.classList.contains("hl-open")) open(Number(next.dataset.node), level);
        (next.isConnected ? next : pick(levels, `[data-node="${next.dataset.node}"]`) ?? next).focus();
      }
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const box = boxes[boxes.indexOf(levelOf(slice)) + (event.key === "ArrowDown" ? 1 : -1)];
      const target = box && (pick(box, ".hl-open") ?? pick(box, ".hl-slice"));
      if (target) target.focus();
    } else if (event.key === "Escape") {
      state.path = state.path.slice(0, Math.max(1, state.path.length - 1));
      draw();
      focusSlice(state.path[state.path.length - 1]);
    } else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(input|select|textarea)$/i.test(/** @type {Element} */ (event.target).tagName || "");
    if (event.key === "/" && !typing) { event.preventDefault(); search.focus(); }
  });
  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { state.query = search.value; find(); draw(); }, 120);
  });
  let width = root.clientWidth;
  new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    requestAnimationFrame(fitLabels);
  }).observe(root);
  draw();
  return { openTo, duration };
}
