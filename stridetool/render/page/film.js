// Reads what film_data.py wrote: numbers by entry, what is live at any entry, and sums per pixel of the timeline.
"use strict";
const ALLOC = 0, REQUESTED = 1, COMPLETED = 2, SEGMENT_ALLOC = 3, SEGMENT_FREE = 4, MAP = 5, UNMAP = 6, OOM = 7;

async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

class Numbers { // a column of variable-length numbers
  constructor(bytes) { this.bytes = bytes; this.at = 0; }
  next() {
    let value = 0, scale = 1, byte;
    do { byte = this.bytes[this.at++]; value += (byte & 127) * scale; scale *= 128; } while (byte & 128);
    return value;
  }
  signed() { const value = this.next(); return value % 2 ? -(value + 1) / 2 : value / 2; }
}

class Film {
  static async read(text) { return new Film(await inflate(text)); }

  constructor(blob) {
    const size = new DataView(blob.buffer).getUint32(0, true);
    Object.assign(this, JSON.parse(new TextDecoder().decode(blob.subarray(4, 4 + size))));
    let at = 4 + size;
    const columns = {};
    for (const [name, length] of Object.entries(this.columns)) { columns[name] = blob.subarray(at, at + length); at += length; }
    this.actions = columns.actions;
    this.decode(columns);
    this.levels = ["allocated", "reserved", "requested"].map((name) => pyramid(this[name]));
  }

  // `subject[i]`: the allocation (block) that entry i makes or ends, or the row of `ranges` that it adds or takes.
  decode({ kinds, steps, ends, segments }) {
    const n = this.entries, { blocks, actions } = this;
    const [kind, step, end, segment] = [kinds, steps, ends, segments].map((bytes) => new Numbers(bytes));
    const allocs = actions.reduce((count, action) => count + (action === ALLOC), 0), first = blocks.length;
    this.first = first;
    this.addressOf = new Float64Array(first + allocs);
    this.kindOf = new Uint32Array(first + allocs);
    this.bornAt = new Int32Array(first + allocs).fill(-1);
    this.subject = new Int32Array(n).fill(-1);
    this.ranges = [];
    blocks.forEach(([address, number], i) => { this.addressOf[first - 1 - i] = address; this.kindOf[first - 1 - i] = number; });
    for (const name of ["allocated", "reserved", "requested"]) this[name] = new Float64Array(n + 1);
    let allocated = 0, requested = 0, reserved = 0, made = 0, last = 0, lastSegment = 0, lastEnd = -1;
    blocks.forEach(([, number, pending]) => { requested += this.kinds[number][0]; allocated += pending ? 0 : this.kinds[number][1]; });
    for (const row of this.segments) reserved += row[1];
    [this.allocated[0], this.reserved[0], this.requested[0]] = [allocated, reserved, requested];
    const pending = new Set(blocks.flatMap(([, , p], i) => (p ? [first - 1 - i] : [])));
    for (let i = 0; i < n; i++) {
      const action = actions[i];
      if (action === ALLOC) {
        const number = kind.next(), block = first + made++;
        this.addressOf[block] = last += step.signed();
        this.kindOf[block] = number;
        this.bornAt[block] = i;
        this.subject[i] = block;
        allocated += this.kinds[number][1];
        requested += this.kinds[number][0];
      } else if (action === REQUESTED || action === COMPLETED) {
        const code = end.next();
        if (code !== 0) lastEnd = code === 1 ? -1 : first + made - (code - 2);
        this.subject[i] = lastEnd;
        if (lastEnd >= 0) {
          const [asked, given] = this.kinds[this.kindOf[lastEnd]];
          if (action === REQUESTED) { allocated -= given; pending.add(lastEnd); }
          else { if (!pending.delete(lastEnd)) allocated -= given; requested -= asked; }
        }
      } else if (action >= SEGMENT_ALLOC && action <= UNMAP) {
        const address = (lastSegment += segment.signed()), size = segment.next(), stream = segment.next();
        this.subject[i] = this.ranges.push([address, size, stream, action]) - 1;
        reserved += action === SEGMENT_ALLOC || action === MAP ? size : -size;
      } else if (action === OOM) this.subject[i] = this.ranges.push([0, segment.next(), 0, OOM]) - 1;
      this.allocated[i + 1] = allocated;
      this.reserved[i + 1] = reserved;
      this.requested[i + 1] = requested;
    }
    const streams = new Set([...this.segments.map((row) => row[2]), ...this.ranges.map((row) => row[2])]);
    this.hues = new Map([...streams].sort((a, b) => a - b).map((stream, number) => [stream, number]));
    this.ooms = [];
    for (let i = 0; i < n; i++) if (actions[i] === OOM) this.ooms.push(i);
  }

  // Live blocks and segments after `count` entries. States are kept every so many entries, so a click costs little.
  state(count) {
    const stride = 1 << 15, marks = (this.marks ??= [this.beginning()]);
    while (marks.length * stride <= count) marks.push(this.forward(marks.at(-1), (marks.length - 1) * stride, marks.length * stride));
    const at = Math.floor(count / stride);
    return this.forward(marks[at], at * stride, count);
  }

  beginning() {
    const live = new Map(), segments = new Map();
    this.blocks.forEach(([, , pending], i) => live.set(this.first - 1 - i, pending));
    for (const [address, size, stream, small, expandable] of this.segments) segments.set(address, { address, size, stream, small, expandable });
    return { live, segments };
  }

  forward(from, start, end) {
    const live = new Map(from.live), segments = new Map(from.segments);
    for (let i = start; i < end; i++) {
      const action = this.actions[i], subject = this.subject[i];
      if (subject < 0) continue;
      if (action === ALLOC) live.set(subject, false);
      else if (action === REQUESTED) { if (live.has(subject)) live.set(subject, true); }
      else if (action === COMPLETED) live.delete(subject);
      else if (action !== OOM) change(segments, this.ranges[subject]);
    }
    return { live, segments };
  }

  hex(address) { return "0x" + (BigInt(this.base) + BigInt(address)).toString(16); }
}

// Segments come and go whole; mapped ranges grow into their neighbours and are cut.
function change(segments, [address, size, stream, action]) {
  if (action === SEGMENT_ALLOC) segments.set(address, { address, size, stream, small: size <= 2 << 20, expandable: false });
  else if (action === SEGMENT_FREE) segments.delete(address);
  else if (action === MAP) {
    let range = { address, size, stream, small: false, expandable: true };
    for (const other of [...segments.values()]) {
      if (!other.expandable || other.stream !== stream) continue;
      if (other.address + other.size === range.address) { segments.delete(other.address); range = { ...other, size: other.size + range.size }; }
      else if (range.address + range.size === other.address) { segments.delete(other.address); range = { ...range, size: range.size + other.size }; }
    }
    segments.set(range.address, range);
  } else if (action === UNMAP) {
    for (const other of [...segments.values()]) {
      if (address >= other.address + other.size || address + size <= other.address) continue;
      segments.delete(other.address);
      if (other.address < address) segments.set(other.address, { ...other, size: address - other.address });
      const end = other.address + other.size;
      if (end > address + size) segments.set(address + size, { ...other, address: address + size, size: end - address - size });
    }
  }
}

// Least and most of each 8, 64, 512, … values: a pixel then looks at a handful of numbers, however many entries it is.
function pyramid(values) {
  const levels = [{ low: values, high: values }];
  while (levels.at(-1).low.length > 4096) {
    const { low, high } = levels.at(-1), n = Math.ceil(low.length / 8);
    const next = { low: new Float64Array(n), high: new Float64Array(n) };
    for (let i = 0; i < n; i++) {
      let least = Infinity, most = -Infinity;
      for (let j = i * 8; j < Math.min(i * 8 + 8, low.length); j++) { if (low[j] < least) least = low[j]; if (high[j] > most) most = high[j]; }
      next.low[i] = least;
      next.high[i] = most;
    }
    levels.push(next);
  }
  return levels;
}

function extremes(levels, start, end) {
  let level = 0, a = Math.max(0, Math.floor(start)), b = Math.max(a + 1, Math.ceil(end));
  while (level + 1 < levels.length && b - a > 16) { a = Math.floor(a / 8); b = Math.ceil(b / 8); level++; }
  const { low, high } = levels[level];
  let least = Infinity, most = -Infinity;
  for (let i = a; i < Math.min(b, low.length); i++) { if (low[i] < least) least = low[i]; if (high[i] > most) most = high[i]; }
  return [least, most];
}
