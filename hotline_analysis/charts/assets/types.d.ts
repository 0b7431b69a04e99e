// The shapes of what Python writes into a page, and of what its scripts share. Only `tsc` reads this file: the comments
// of the scripts name these types (`make types-js`), and tests/charts/test_script_types.py checks real pages by them.

/** The size of a unit of time in nanoseconds, and its name; the smallest first. */
type Unit = [size: number, name: string];

/** A number for each node or each side of a tree. */
type Column = number[];

/** A tree of events in columns: `Timeline.to_dict`. A node is a position, and -1 is no position. */
interface StepTree {
  names: string[];
  kinds: string[];
  phases: string[];
  passes: string[];
  sources: { place: string; line: string }[];
  tracks: { device: "cpu" | "gpu"; name: string; gpu?: number }[];
  /** By GPU. */
  idle: Record<string, IdlePart[]>;
  units: Unit[];
  nodes: {
    parent: Column; kind: Column; name: Column; full: Column; path: Column; pass: Column; phase: Column;
    source: Column; members: Column; names: Column; pct: Column; bound: Column; event: Column; gpuEvent: Column;
  };
  /** A side is a node's time on one track. */
  sides: {
    node: Column; track: Column; start: Column; dur: Column; time: Column; count: Column; busy: Column; idle: Column;
  };
  /** -1 for a run of one rank. */
  rank: number;
  stepEvent: number;
  chain: number[];
}
/** A track in a level of the multi-scale timeline: the time from `start` to `end` fills its row. */
interface Row {
  track: number;
  sides: number[];
  start: number;
  end: number;
  ownStart: number;
  ownEnd: number;
  time: number;
  device: "cpu" | "gpu";
}
type IdlePart = [start: number, length: number, cause: string];

/** What the step view shows: `_screen_data` of reports/renderers/html.py. */
interface StepScreen {
  views: View[];
  start: number;
  /** The state that the sentence of the page names, or empty. */
  hot: string;
  /** The place that the sentence of the page names, or empty. */
  cause: string;
  actions: { title: string; where: string; noun: string }[];
  strip: [step: number, length: number, kind: number][];
  words: Record<string, string>;
  titles: Record<string, string>;
  waits: Record<string, string>;
  units: Unit[];
}

/** A step that a person can choose. `tree` is the position of its tree in the page. */
interface View {
  tree: number;
  step: number | null;
  kind: number | null;
  said: string;
  about: string;
  span: number;
  bins: number;
  width: number;
  bars: Bar[];
  late: { rank: number; bars: Bar[] } | null;
  causes: string[];
  /** `cause` is a position in `causes`. */
  idle: [device: number, start: number, length: number, cause: number][];
  /** By action. */
  spans: Place[][];
  cause: Place[];
}
type Place = [start: number, end: number, count: number, onGpu: number];

/** A state of the main thread (`device` is null) or of a GPU, with its share of each bin in thousandths. */
interface Bar {
  device: number | null;
  state: string;
  wait: string | null;
  time: number;
  share: number[];
}
interface BarRun { bar: Bar; from: number; until: number; time: number }

/** A side of a node in the row where the step view draws it. */
interface Slice {
  node: number;
  lane: string;
  row: number;
  start: number;
  end: number;
  time: number;
  label: string;
  path: string;
  phase: string;
  place: string;
  gpu: boolean;
  leaf: boolean;
  kind: string;
}
interface Slices { slices: Slice[]; streams: { track: number; name: string }[] }

type Brush = string | CanvasPattern;
interface Paints {
  ink: string; soft: string; line: string; paper: string; panel: string; hot: string; hotPaper: string;
  computation: string; memory: string; communication: string; tint: string;
  weight: number;
  mix: (a: string, b: string, weight: number) => string;
  hotHatch: Brush; waitHatch: Brush; thinHatch: Brush; stripes: Brush; hotStripes: Brush;
}

/** Where the step view draws: heights and widths are in pixels. */
interface Layout {
  gutter: number;
  room: number;
  barHeight: number;
  height: number;
  devices: number[];
  /** -1 without a strip of steps. */
  strip: number;
  bars: { device: number | null; late?: View["late"]; y: number }[];
  axis: number;
  funnel: number;
  top: number;
  lanes: Map<string, number>;
  first: number;
  cpuRows: number;
  gpuRows: number;
  all: number;
}

/** What a person looks at. */
interface StepState {
  view: number;
  from: number;
  until: number;
  selected: Slice | null;
  /** The action whose places are marked. */
  show: number | null;
  walk: number;
  query: string;
  found: Set<Slice>;
  range: [from: number, until: number] | null;
}

/** A drawn area that reacts to the mouse: a step of the strip, a bar, idle time, or a slice. */
type Hit = Area & ({ slice?: undefined } | SliceHit);
interface Area {
  x: number;
  y: number;
  w: number;
  h: number;
  step?: number;
  kind?: number;
  bar?: number | null;
  idle?: IdlePart;
}
/** The slice, or the first of the `members` that are drawn as one. */
interface SliceHit { slice: Slice; members: Slice[]; from: number; until: number; label: string; time: number }
/** What a pointer began in the step view: a movement from a place, or of two fingers that far apart. */
type Drag = { from: number; until: number } & { moved: boolean } & (
  | { pinch?: undefined; x: number; y: number; above: boolean; shift: boolean }
  | { pinch: number }
);
interface Drawing { hits: Hit[]; time: (x: number) => number; whole: (x: number) => number }
