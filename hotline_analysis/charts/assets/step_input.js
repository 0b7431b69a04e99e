// Zoom, pan, selection, search, places of an advice, and the address: what a person does with the step view.
"use strict";

/** @param {HTMLElement} root @param {StepScreen} screen @param {StepTree[]} trees one for each view */
function hotlineStep(root, screen, trees) {
  /** The first element of the template for a selector. @param {string} selector @returns {any} */
  const part = (selector) => root.querySelector(selector);
  /** @param {ParentNode} from @param {string} selector @returns {NodeListOf<HTMLElement>} */
  const all = (from, selector) => from.querySelectorAll(selector);
  /** @type {HTMLCanvasElement} */
  const canvas = part("canvas");
  /** @type {HTMLInputElement} */
  const search = part("input[type=search]");
  /** @type {HTMLElement} */
  const status = part("[data-status]"), results = part("[data-results]");
  const tabs = [...all(root, "[data-tab]")], shows = [...all(document, "[data-show]")];
  const built = trees.map((tree) => hotlineSlices(tree));
  const SHORTEST = 5000; // of a window, in nanoseconds
  /** @type {StepState} */
  const state = { view: 0, from: 0, until: 1, selected: null, show: null, walk: -1, query: "", found: new Set(), range: null };
  const extra = { bar: 0, row: 0 };
  /** @type {Drawing & {place: Layout}} Unset only until the canvas has a width, and so something to point at. */
  let drawn;
  /** @type {Paints | null} */
  let paints = null;
  const view = () => screen.views[state.view], tree = () => built[state.view];
  const words = (/** @type {number} */ ns) => hotlineWords.duration(ns, screen.units);

  function draw() {
    if (!canvas.clientWidth) return;
    paints = paints ?? hotlinePaints(hotlineContext(canvas));
    const place = hotlineLayout(screen, view(), tree(), canvas.clientWidth, extra);
    drawn = { place, ...hotlineDraw(canvas, screen, view(), tree(), state, paints, place) };
  }
  /** The rows take the height that the window has left. */
  function fit() {
    extra.bar = extra.row = 0;
    draw();
    const last = document.querySelector("[data-first-screen]");
    if (!last || !drawn || innerWidth <= 1100) return;
    // Beside the words the picture may be as high as the window; above the actions it leaves them room.
    const beside = root.getBoundingClientRect().left > last.getBoundingClientRect().left + 100;
    const free = innerHeight - 10 - ((beside ? root : last).getBoundingClientRect().bottom + scrollY), rows = Math.max(1, drawn.place.lanes.size);
    extra.row = Math.max(-3, Math.min(6, Math.floor((0.7 * free) / rows)));
    extra.bar = Math.max(-6, Math.min(16, Math.floor((free - extra.row * rows) / drawn.place.bars.length)));
    draw();
  }

  // --- the address: a link shows the same, and Back goes back

  function address() {
    const parts = new URLSearchParams();
    if (view().step !== null) parts.set("step", String(view().step));
    if (state.from > 0 || state.until < view().span) parts.set("t", `${(state.from / 1e6).toFixed(6)}-${(state.until / 1e6).toFixed(6)}`);
    if (state.selected) parts.set("sel", String(tree().slices.indexOf(state.selected)));
    if (state.show !== null) parts.set("show", String(state.show + 1));
    if (state.query) parts.set("q", state.query);
    return "#" + parts;
  }
  let waiting = 0;
  /** @param {boolean} isNew whether Back comes back to what was before */
  function note(isNew) {
    clearTimeout(waiting);
    if (isNew) { if (address() !== location.hash) history.pushState(null, "", address()); }
    else waiting = setTimeout(() => history.replaceState(null, "", address()), 200);
  }
  function read() {
    const hash = location.hash.slice(1);
    if (hash && !hash.includes("=")) return false; // a section of the page
    const parts = new URLSearchParams(hash);
    const at = screen.views.findIndex((each) => String(each.step) === parts.get("step"));
    openView(at >= 0 ? at : screen.start);
    const times = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(parts.get("t") ?? "");
    if (times) window_(Number(times[1]) * 1e6, Number(times[2]) * 1e6, true);
    const shown = Number(parts.get("show")) - 1;
    state.show = Number.isInteger(shown) && shown >= 0 && shown < screen.actions.length ? shown : null;
    state.selected = tree().slices[Number(parts.get("sel") ?? -1)] ?? null;
    search.value = parts.get("q") ?? "";
    state.query = search.value.trim().toLowerCase();
    find();
    tell();
    mark();
    draw();
    return true;
  }

  // --- words below the rows

  const piece = (/** @type {string} */ tag, /** @type {string} */ text) => Object.assign(document.createElement(tag), { textContent: text });
  /**
   * What takes most of a time: `forward 8.24 ms, backward 12.6 ms`.
   *
   * @param {number} from @param {number} until @param {string[]} keys @param {number} most
   */
  function spoken(from, until, keys, most) {
    const called = (/** @type {string} */ key) => (key.startsWith("c:") ? key.slice(2).replace(/_/g, " ") : (key.startsWith("w:") ? screen.waits : screen.words)[key.slice(2)] ?? key.slice(2));
    return [...hotlineSum(view(), from, until)].filter(([key]) => keys.includes(key.slice(0, 2)))
      .sort((a, b) => b[1] - a[1]).slice(0, most).map(([key, time]) => `${called(key)} ${words(time)}`).join(", ");
  }
  function tell() {
    const chosen = state.selected;
    status.replaceChildren();
    if (state.range) {
      const [from, until] = state.range, say = (/** @type {string[]} */ keys) => spoken(from, until, keys, 4);
      const kernels = tree().slices.filter((each) => each.leaf && each.start < until && each.end > from).length;
      status.append(piece("b", `Range of ${words(until - from)}`), ` · CPU: ${say(["c:", "w:"]) || "nothing"}`);
      if (tree().streams.length) status.append(` · GPU: ${say(["g:"]) || "nothing"} · ${kernels.toLocaleString("en")} GPU slices`);
    } else if (chosen) {
      const said = [chosen.path && chosen.path !== chosen.label ? chosen.path : "", chosen.phase.replace(/_/g, " "),
        `${chosen.gpu ? "GPU" : "CPU"} ${words(chosen.time)}`, `${hotlineWords.percent(chosen.time, view().span)} of what is shown`, chosen.place];
      status.append(piece("b", chosen.label), " · " + said.filter(Boolean).join(" · "));
    } else if (state.show !== null) {
      const spans = view().spans[state.show] ?? [], count = spans.reduce((sum, each) => sum + each[2], 0);
      status.append(piece("b", screen.actions[state.show].title), ` · ${count.toLocaleString("en")} ${count === 1 ? "place" : `${screen.actions[state.show].noun}s`} in this step · n and p go from one to the next, Esc ends`);
    } else {
      const said = spoken(0, view().span, ["c:", "w:"], 3);
      status.append("Opened: ", piece("b", view().said), [view().about, said ? `CPU: ${said}` : ""].filter(Boolean).map((each) => ` · ${each}`).join(""));
    }
  }
  function mark() {
    tabs.forEach((each, at) => {
      each.setAttribute("aria-selected", String(at === state.view));
      each.tabIndex = at === state.view ? 0 : -1;
    });
    for (const each of shows) each.setAttribute("aria-pressed", String(Number(each.dataset.show) === state.show));
    canvas.setAttribute("aria-label", `Timeline of ${view().said}. Arrow keys go from slice to slice, w and s zoom, a and d pan.`);
  }

  // --- what can be done

  function openView(/** @type {number} */ at) {
    state.view = at;
    state.selected = state.range = null;
    state.walk = -1;
    state.from = 0;
    state.until = view().span;
  }
  /** @param {number} from @param {number} until @param {boolean} [quiet] */
  function window_(from, until, quiet) {
    const whole = view().span, wide = Math.max(Math.min(SHORTEST, whole), Math.min(until - from, whole));
    state.from = Math.max(0, Math.min(from, whole - wide));
    state.until = state.from + wide;
    if (quiet) return;
    note(false);
    draw();
  }
  function zoom(/** @type {number} */ factor, at = (state.from + state.until) / 2) {
    window_(at - (at - state.from) * factor, at + (state.until - at) * factor);
  }
  function pan(/** @type {number} */ share) {
    const by = (state.until - state.from) * share;
    window_(state.from + by, state.until + by);
  }
  function select(/** @type {Slice | null} */ slice) {
    state.selected = slice;
    state.range = null;
    if (slice && (slice.end < state.from || slice.start > state.until)) around(slice.start, slice.end);
    tell();
    draw();
    note(true);
  }
  /** Moves the window so that a time is in it, without a change of its width where that is enough. @param {number} from @param {number} until */
  function around(from, until) {
    const wide = Math.max(state.until - state.from, (until - from) * 1.1), middle = (from + until) / 2;
    window_(middle - wide / 2, middle + wide / 2, true);
  }
  function show(/** @type {number} */ action) {
    state.show = state.show === action ? null : action;
    state.walk = -1;
    if (state.show !== null && !(view().spans[action] ?? []).length) {
      const other = screen.views.findIndex((each) => (each.spans[action] ?? []).length);
      if (other >= 0) { openView(other); state.show = action; }
    }
    state.selected = state.range = null;
    window_(0, view().span, true);
    mark();
    tell();
    draw();
    note(true);
  }
  function walk(/** @type {number} */ by) {
    if (state.show === null) return;
    const spans = view().spans[state.show] ?? [];
    if (!spans.length) return;
    state.walk = (state.walk + by + spans.length) % spans.length;
    const [from, until] = spans[state.walk], wide = Math.max((until - from) * 6, view().span / 50);
    window_((from + until) / 2 - wide / 2, (from + until) / 2 + wide / 2);
    status.replaceChildren(piece("b", screen.actions[state.show].title), ` · ${spans.length === 1 ? "place" : screen.actions[state.show].noun} ${state.walk + 1} of ${spans.length} on the screen · ${words(until - from)}`);
  }
  function tab(/** @type {number} */ at) {
    if (!screen.views[at]) return;
    const shown = state.show;
    openView(at);
    state.show = shown;
    find();
    mark();
    tell();
    fit();
    note(true);
  }
  function find() {
    state.found = new Set();
    results.replaceChildren();
    if (!state.query) return;
    for (const each of tree().slices) {
      if (`${each.label} ${each.path} ${each.phase.replace(/_/g, " ")} ${each.place}`.toLowerCase().includes(state.query)) state.found.add(each);
    }
    const best = [...state.found].sort((a, b) => b.time - a.time).slice(0, 12);
    results.append(piece("li", state.found.size ? `${state.found.size.toLocaleString("en")} found, outlined below. The longest:` : "nothing found"));
    for (const each of best) {
      const item = document.createElement("li"), button = document.createElement("button");
      button.type = "button";
      button.append(piece("b", each.label), ` · ${[each.path, each.phase.replace(/_/g, " ")].filter((part) => part && part !== each.label).join(" · ")} · ${each.gpu ? "GPU" : "CPU"} ${words(each.time)}`);
      button.addEventListener("click", () => { zoomTo(each); select(each); canvas.focus({ preventScroll: true }); });
      item.append(button);
      results.append(item);
    }
  }
  function zoomTo(/** @type {Slice} */ slice) {
    const wide = Math.max(slice.end - slice.start, 1);
    window_(slice.start - 0.5 * wide, slice.end + 0.5 * wide);
  }
  function step(/** @type {string} */ key) {
    const lanes = [...drawn.place.lanes.keys()], all = tree().slices.filter((each) => drawn.place.lanes.has(each.lane));
    const visible = (/** @type {Slice} */ each) => each.end >= state.from && each.start <= state.until;
    const chosen = state.selected ?? all.find(visible);
    if (!chosen) return;
    if (!state.selected) return select(chosen);
    const lane = all.filter((each) => each.lane === chosen.lane), at = lane.indexOf(chosen);
    if (key === "ArrowLeft" || key === "ArrowRight") return select(lane[at + (key === "ArrowLeft" ? -1 : 1)] ?? chosen);
    let to = lanes.indexOf(chosen.lane);
    const middle = (chosen.start + chosen.end) / 2;
    for (;;) {
      to += key === "ArrowUp" ? -1 : 1;
      if (to < 0 || to >= lanes.length) return;
      const near = all.filter((each) => each.lane === lanes[to]);
      const inside = near.filter((each) => each.start <= chosen.end && each.end >= chosen.start);
      const best = (inside.length ? inside : near).reduce((/** @type {Slice | null} */ a, b) => (!a || Math.abs((b.start + b.end) / 2 - middle) < Math.abs((a.start + a.end) / 2 - middle) ? b : a), null);
      if (best) return select(best);
    }
  }

  // --- mouse, touch and keys

  /** @type {(event: MouseEvent) => [x: number, y: number]} */
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const hit = (/** @type {number} */ x, /** @type {number} */ y) => drawn.hits.findLast((each) => x >= each.x && x <= each.x + each.w && y >= each.y && y <= each.y + each.h);
  /** @type {Drag | null} */
  let drag = null;
  /** @type {Map<number, number>} */
  const touches = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    const [x, y] = at(event);
    touches.set(event.pointerId, x);
    drag = { x, y, from: state.from, until: state.until, above: y < drawn.place.funnel, shift: event.shiftKey, moved: false };
    if (touches.size === 2) drag = { pinch: Math.abs([...touches.values()].reduce((a, b) => a - b)), from: state.from, until: state.until, moved: true };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    if (!drag) {
      const under = hit(x, y);
      canvas.style.cursor = y < drawn.place.funnel ? "crosshair" : under?.slice ? "pointer" : "grab";
      canvas.title = under?.slice ? `${under.label} · ${words(under.time)}${under.slice.path ? " · " + under.slice.path : ""}` : under?.idle ? `${screen.titles[under.idle[2]] ?? under.idle[2]} · ${words(under.idle[1])}` : "";
      return;
    }
    touches.set(event.pointerId, x);
    if (drag.pinch !== undefined) {
      const apart = Math.max(10, Math.abs([...touches.values()].reduce((a, b) => a - b))), middle = (drag.from + drag.until) / 2;
      const wide = ((drag.until - drag.from) * drag.pinch) / apart;
      return window_(middle - wide / 2, middle + wide / 2);
    }
    if (Math.abs(x - drag.x) > 3) drag.moved = true;
    if (!drag.moved) return;
    if (drag.above) {
      const [a, b] = [drawn.whole(drag.x), drawn.whole(x)];
      window_(Math.min(a, b), Math.max(a, b));
    } else if (drag.shift) {
      const [a, b] = [drawn.time(drag.x), drawn.time(x)].map((time) => Math.max(0, Math.min(time, view().span)));
      state.range = [Math.min(a, b), Math.max(a, b)];
      tell();
      draw();
    } else {
      const by = ((drag.x - x) / drawn.place.room) * (drag.until - drag.from);
      window_(drag.from + by, drag.until + by);
    }
  });
  const release = (/** @type {PointerEvent} */ event) => {
    touches.delete(event.pointerId);
    if (drag && !drag.moved && event.type === "pointerup") {
      const under = hit(...at(event));
      if (under?.step !== undefined) {
        const other = screen.views.findIndex((each) => each.step === under.step || each.kind === under.kind);
        if (other >= 0) tab(other);
      } else if (under?.slice) {
        // Of slices that are drawn as one, a click looks closer.
        if (under.members.length > 1) window_(under.from - 0.05 * (under.until - under.from), under.until + 0.05 * (under.until - under.from));
        else select(under.slice);
      } else select(null);
    }
    drag = null;
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("dblclick", (event) => {
    const under = hit(...at(event));
    if (under?.slice) zoomTo(under.slice);
  });
  canvas.addEventListener("wheel", (event) => {
    const [x, y] = at(event);
    // Over the picture the page scrolls; over the rows below it, the wheel zooms.
    if (y < drawn.place.funnel && !event.ctrlKey) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(Math.sign(event.deltaX) * 0.1);
    else zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, drawn.time(x));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (/^Arrow/.test(event.key)) step(event.key);
    else if (event.key === "Enter" && state.selected) zoomTo(state.selected);
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = /** @type {Element} */ (event.target);
    const name = target.tagName ?? "", inTimeline = target.closest?.("[data-hotline-timeline]");
    if (target === search) {
      if (event.key === "Escape") { search.value = state.query = ""; find(); draw(); search.blur(); note(false); }
      if (event.key === "Enter") results.querySelector("button")?.click();
      return;
    }
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(name) || inTimeline) return;
    /** @type {Record<string, () => void>} */
    const actions = {
      w: () => zoom(0.7), "+": () => zoom(0.7), s: () => zoom(1 / 0.7), "-": () => zoom(1 / 0.7), a: () => pan(-0.2), d: () => pan(0.2),
      0: () => window_(0, view().span), n: () => walk(1), p: () => walk(-1), "/": () => search.focus(),
      Escape: () => { state.range = null; state.show = null; mark(); select(null); },
    };
    const done = actions[event.key] ?? (/^[1-9]$/.test(event.key) && screen.views.length > 1 ? () => tab(Number(event.key) - 1) : null);
    if (!done) return;
    event.preventDefault();
    done();
  });
  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => { state.query = search.value.trim().toLowerCase(); find(); draw(); note(false); }, 120);
  });
  tabs.forEach((each, number) => {
    each.addEventListener("click", () => tab(number));
    each.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      const other = (number + by + tabs.length) % tabs.length;
      tab(other);
      tabs[other].focus();
      event.preventDefault();
    });
  });
  for (const each of shows) each.addEventListener("click", () => show(Number(each.dataset.show)));
  for (const each of all(root, "[data-zoom]")) {
    each.addEventListener("click", () => (each.dataset.zoom === "0" ? window_(0, view().span) : zoom(Number(each.dataset.zoom))));
  }
  for (const each of document.querySelectorAll("[data-copy]")) {
    each.addEventListener("click", async () => {
      const code = each.closest(".action")?.querySelector("pre");
      if (!code) return;
      getSelection()?.selectAllChildren(code);
      try { await navigator.clipboard.writeText(code.textContent ?? ""); each.textContent = "copied"; } catch { document.execCommand("copy"); each.textContent = "copied"; }
    });
  }
  addEventListener("popstate", read);
  addEventListener("hashchange", read);
  const again = () => { paints = null; draw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  let width = 0;
  new ResizeObserver(() => { if (canvas.clientWidth !== width) { width = canvas.clientWidth; requestAnimationFrame(fit); } }).observe(root);
  addEventListener("resize", () => requestAnimationFrame(fit));
  if (!read()) { openView(screen.start); mark(); tell(); }
  fit();
  return { state, window: window_, zoom, pan, select, show, tab, slices: () => tree().slices, hits: () => drawn.hits, place: () => drawn.place };
}
