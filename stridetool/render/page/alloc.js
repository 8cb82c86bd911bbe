// The course of an allocator with zoom and pointer, and the memory at the moment that was clicked. Canvas: a pixel, not
// an entry, is what costs.
"use strict";
const PAD = { left: 84, right: 16, top: 16, bottom: 22 }, ROW = 18, BAR = 13, NAMES = 336, MAX_ROWS = 400;

function bytesText(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (Math.abs(n) >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return `${i === 0 || Math.abs(n) >= 100 ? Math.round(n) : n.toPrecision(3)} ${units[i]}`;
}
const count = (n) => n.toLocaleString("en");
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function canvasOf(element, height) { // its context in CSS pixels, sharp on any screen
  const ratio = window.devicePixelRatio || 1, width = element.clientWidth;
  element.style.height = `${height}px`;
  if (element.width !== Math.round(width * ratio) || element.height !== Math.round(height * ratio)) {
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
  }
  const context = element.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "11px ui-monospace, monospace";
  return { context, width, height };
}

class View {
  constructor(section, film) {
    this.film = film;
    this.part = (name) => section.querySelector(`.${name}`);
    this.course = this.part("course");
    this.map = this.part("map");
    this.start = 0;
    this.end = Math.max(1, film.entries);
    this.moment = film.ooms.length ? film.ooms[0] + 1 : peak(film);
    this.listen(section);
    this.select(this.moment);
    section.dataset.ready = "yes";
  }

  listen(section) {
    const { course } = this;
    let drag = null;
    course.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(event.deltaY / 400), this.entryAt(event)); }, { passive: false });
    course.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, start: this.start, end: this.end, moved: false }; course.setPointerCapture(event.pointerId); });
    course.addEventListener("pointermove", (event) => {
      if (!drag) return this.say(this.entryAt(event));
      const step = ((drag.x - event.clientX) / this.room()) * (drag.end - drag.start);
      if (Math.abs(drag.x - event.clientX) > 3) drag.moved = true;
      if (drag.moved) this.show(drag.start + step, drag.end + step);
    });
    course.addEventListener("pointerup", (event) => { if (drag && !drag.moved) this.select(this.entryAt(event) + 1); drag = null; });
    course.addEventListener("keydown", (event) => this.key(event));
    this.map.addEventListener("pointermove", (event) => this.explain(event));
    this.part("mapbox").addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (by) { event.preventDefault(); this.step(by); }
    });
    this.map.addEventListener("click", (event) => this.explain(event));
    for (const [name, act] of Object.entries({ in: () => this.zoom(0.5), out: () => this.zoom(2), all: () => this.show(0, this.film.entries), before: () => this.select(this.moment - 1), after: () => this.select(this.moment + 1), oom: () => this.nextOom() }))
      section.querySelector(`[data-do="${name}"]`)?.addEventListener("click", act);
    section.querySelector("input")?.addEventListener("change", (event) => this.select(Number(event.target.value)));
    new ResizeObserver(() => this.draw()).observe(course);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.draw(); this.drawMap(); });
  }

  key(event) {
    const span = this.end - this.start, acts = {
      ArrowLeft: () => this.select(this.moment - (event.shiftKey ? Math.ceil(span / 20) : 1)), ArrowRight: () => this.select(this.moment + (event.shiftKey ? Math.ceil(span / 20) : 1)),
      "+": () => this.zoom(0.5, this.moment), "=": () => this.zoom(0.5, this.moment), "-": () => this.zoom(2, this.moment),
      PageUp: () => this.show(this.start - span / 2, this.end - span / 2), PageDown: () => this.show(this.start + span / 2, this.end + span / 2),
      Home: () => this.show(0, this.film.entries), o: () => this.nextOom(),
    };
    if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
  }

  room() { return Math.max(1, this.course.clientWidth - PAD.left - PAD.right); }
  entryAt(event) {
    const x = event.clientX - this.course.getBoundingClientRect().left - PAD.left;
    return Math.min(Math.max(Math.floor(this.start + (x / this.room()) * (this.end - this.start)), 0), Math.max(this.film.entries - 1, 0));
  }
  zoom(factor, at = (this.start + this.end) / 2) { this.show(at - (at - this.start) * factor, at + (this.end - at) * factor); }

  show(start, end) {
    const most = Math.max(1, this.film.entries), span = Math.min(Math.max(end - start, 8), most);
    this.start = Math.min(Math.max(start, 0), most - span);
    this.end = this.start + span;
    this.draw();
  }

  draw() {
    if (this.due) return;
    this.due = requestAnimationFrame(() => { this.due = 0; this.drawCourse(); });
  }

  drawCourse() {
    const { film, start, end } = this, { context: c, width, height } = canvasOf(this.course, 260);
    const room = this.room(), tall = height - PAD.top - PAD.bottom;
    const [allocated, reserved, requested] = film.levels;
    let top = Math.max(extremes(reserved, 0, film.entries + 1)[1], extremes(allocated, 0, film.entries + 1)[1], 1);
    if (film.capacity && film.capacity < 3 * top) top = Math.max(top, film.capacity);
    const level = (n) => PAD.top + tall - (Math.max(n, 0) / top) * tall, place = (entry) => PAD.left + ((entry - start) / (end - start)) * room;
    c.strokeStyle = color("--edge"); c.fillStyle = color("--soft"); c.lineWidth = 1;
    for (let q = 0; q <= 4; q++) {
      const y = Math.round(level((top * q) / 4)) + 0.5;
      c.beginPath(); c.moveTo(PAD.left, y); c.lineTo(PAD.left + room, y); c.stroke();
      c.textAlign = "right"; c.fillText(bytesText((top * q) / 4), PAD.left - 6, y + 4);
      c.textAlign = q === 0 ? "left" : q === 4 ? "right" : "center";
      c.fillText(count(Math.round(start + ((end - start) * q) / 4)), PAD.left + (room * q) / 4, height - 6);
    }
    const perPixel = (end - start) / room;
    const bar = (levels, fill, solid) => {
      c.fillStyle = fill;
      for (let x = 0; x < room; x++) {
        const [low, high] = extremes(levels, start + x * perPixel + 1, start + (x + 1) * perPixel + 1);
        const y = level(high);
        c.fillRect(PAD.left + x, y, 1, solid ? PAD.top + tall - y : Math.max(1.6, level(low) - y));
      }
    };
    bar(reserved, color("--reserved"), true);
    bar(allocated, color("--allocated"), true);
    bar(requested, color("--fg"), false);
    if (film.capacity && film.capacity <= top) this.line(c, level(film.capacity), room, color("--bad"), [6, 4], "capacity");
    const marks = (entries, fill, size) => {
      let last = -9;
      for (let i = lower(entries, start); i < entries.length && entries[i] <= end; i++) {
        const x = place(entries[i] + 1);
        if (x - last < 3) continue; // one mark for what shares its place
        last = x; c.fillStyle = fill;
        c.beginPath(); c.moveTo(x - size, 2); c.lineTo(x + size, 2); c.lineTo(x, 2 + size * 2); c.closePath(); c.fill();
      }
    };
    marks(film.retries, color("--warn"), 4);
    marks(film.ooms, color("--bad"), 6);
    const x = Math.round(place(this.moment)) + 0.5;
    if (x >= PAD.left && x <= PAD.left + room) { c.strokeStyle = color("--fg"); c.setLineDash([]); c.lineWidth = 1.5; c.beginPath(); c.moveTo(x, PAD.top - 8); c.lineTo(x, PAD.top + tall); c.stroke(); }
    this.course.dataset.range = `${Math.round(start)}-${Math.round(end)}`;
  }

  line(c, y, room, stroke, dash, text) {
    c.strokeStyle = stroke; c.setLineDash(dash); c.beginPath(); c.moveTo(PAD.left, y); c.lineTo(PAD.left + room, y); c.stroke(); c.setLineDash([]);
    c.fillStyle = stroke; c.textAlign = "right"; c.fillText(text, PAD.left + room, y - 4);
  }

  say(entry) {
    const { film } = this, action = NAMES_OF[film.actions[entry]] ?? "", at = entry + 1;
    const what = film.entries ? `entry ${count(entry)} ${action}${this.subjectText(entry)}` : "no history";
    this.part("said").textContent = `${what}; after it allocated ${bytesText(film.allocated[at])}, reserved ${bytesText(film.reserved[at])}, requested ${bytesText(film.requested[at])}`;
  }

  subjectText(entry) {
    const { film } = this, subject = film.subject[entry], action = film.actions[entry];
    if (subject < 0) return "";
    if (action <= COMPLETED) return ` of ${bytesText(film.kinds[film.kindOf[subject]][0])} at ${film.hex(film.addressOf[subject])}`;
    return ` of ${bytesText(film.ranges[subject][1])}`;
  }

  nextOom() {
    const next = this.film.ooms.find((entry) => entry + 1 > this.moment) ?? this.film.ooms[0];
    if (next !== undefined) this.select(next + 1);
  }

  select(moment) {
    const { film } = this;
    this.moment = Math.min(Math.max(Math.round(moment) || 0, 0), film.entries);
    if (this.moment < this.start || this.moment > this.end) { const span = this.end - this.start; this.show(this.moment - span / 2, this.moment + span / 2); }
    this.now = layout(film, film.state(this.moment));
    this.at = this.mark = undefined;
    const input = this.part("moment");
    if (input) { input.value = this.moment; input.max = film.entries; }
    if (this.moment) this.say(this.moment - 1);
    this.draw(); this.drawMap(); this.tables();
  }

  drawMap() {
    const { film } = this, { rows } = this.now, shown = rows.slice(0, MAX_ROWS);
    const { context: c, width } = canvasOf(this.map, Math.max(24, shown.length * ROW + (rows.length > shown.length ? 20 : 4)));
    const scale = (width - NAMES - 12) / Math.sqrt(Math.max(1, ...shown.map((row) => row.size)));
    shown.forEach((row, number) => {
      const y = number * ROW + 2, wide = Math.max(3, Math.sqrt(row.size) * scale), px = wide / row.size;
      row.box = { y, wide };
      c.fillStyle = color("--fg"); c.textAlign = "left";
      c.fillText(`${bytesText(row.size)} ${row.expandable ? "expandable" : row.small ? "small" : "large"} stream ${streamText(row.stream)}, ${bytesText(row.free)} free`, 0, y + 10);
      c.strokeStyle = color("--soft"); c.lineWidth = 1; c.strokeRect(NAMES + 0.5, y + 0.5, wide, BAR - 1);
      const pixels = new Uint8Array(Math.ceil(wide) + 1); // what is drawn already: many blocks may share a pixel
      for (const block of row.blocks) {
        const x = (block.address - row.address) * px, w = block.size * px;
        if (w < 1) { const at = Math.floor(x); if (pixels[at]) continue; pixels[at] = 1; }
        c.fillStyle = color(`--hue${film.hues.get(row.stream) % 8}`);
        c.fillRect(NAMES + x, y, Math.max(1, w - (w > 4 ? 0.7 : 0)), BAR);
        if (block.pending) hatch(c, NAMES + x, y, Math.max(2, w));
        if (this.mark?.[1] === block) { c.strokeStyle = color("--fg"); c.lineWidth = 2; c.strokeRect(NAMES + x, y, Math.max(3, w), BAR); }
      }
    });
    if (rows.length > shown.length) { c.fillStyle = color("--soft"); c.fillText(`… ${count(rows.length - shown.length)} smaller segments`, 0, shown.length * ROW + 14); }
    this.part("moment-title").textContent = `memory after entry ${count(this.moment)} of ${count(this.film.entries)}: ${count(rows.length)} segments, ${count(this.now.blocks)} live blocks`;
  }

  explain(event) {
    const box = this.map.getBoundingClientRect(), x = event.clientX - box.left - NAMES, y = event.clientY - box.top;
    const row = this.now.rows[Math.floor(y / ROW)];
    if (!row || !row.box || x < 0 || x > row.box.wide) return;
    const { film } = this, address = row.address + (x / row.box.wide) * row.size;
    const block = row.blocks.findLast((b) => b.address <= address);
    const out = this.part("stack");
    if (!block || address >= block.address + block.size) out.textContent = `${film.hex(Math.floor(address))}: free, in a segment of ${bytesText(row.size)} at ${film.hex(row.address)}`;
    else this.tell(row, block);
  }

  step(by) { // the next block by key, through all segments
    const all = this.now.rows.slice(0, MAX_ROWS).flatMap((row) => row.blocks.map((block) => [row, block]));
    if (!all.length) return;
    this.at = Math.min(Math.max((this.at ?? -1) + by, 0), all.length - 1);
    this.tell(...all[this.at]);
    this.mark = all[this.at];
    this.drawMap();
  }

  tell(row, block) {
    const { film } = this, out = this.part("stack");
    const [asked, given, stream, site] = film.kinds[block.kind];
    const born = block.born < 0 ? "before the first entry" : `by entry ${count(block.born)}`;
    out.textContent = `${film.hex(block.address)}: ${bytesText(given)} for ${count(asked)} bytes asked for on stream ${streamText(stream)}, made ${born}${block.pending ? ", freed, waits for a stream" : ""}\n` +
      `pins ${bytesText(row.free)} of free memory in its segment (${film.hex(row.address)}, ${bytesText(row.size)})\n${film.sites[site]}`;
  }

  tables() {
    const { film, now } = this, bySite = new Map();
    for (const row of now.rows) for (const block of row.blocks) {
      const [asked, , , site] = film.kinds[block.kind], sum = bySite.get(site) ?? [0, 0];
      bySite.set(site, [sum[0] + asked, sum[1] + 1]);
    }
    const first = (site) => film.sites[site].split("\n")[0];
    const holders = [...bySite].sort((a, b) => b[1][0] - a[1][0]).slice(0, 8);
    fill(this.part("sites"), ["asked for", "blocks", "where"], holders.map(([site, [n, blocks]]) => [bytesText(n), count(blocks), first(site)]));
    const pinned = now.rows.filter((row) => row.blocks.length && row.free).sort((a, b) => b.free - a.free).slice(0, 8);
    fill(this.part("pins"), ["pinned", "segment", "live", "by"], pinned.map((row) => [bytesText(row.free), `${film.hex(row.address)} ${bytesText(row.size)}`, count(row.blocks.length), first(film.kinds[row.blocks[0].kind][3])]));
  }
}

const streamText = (stream) => (stream < 10000 ? stream : `0x${stream.toString(16)}`); // a handle is an address

const NAMES_OF = ["alloc", "free requested", "free completed", "segment alloc", "segment free", "segment map", "segment unmap", "out of memory", ""];

function peak({ reserved, allocated }) { // where most is reserved, and of those entries where most is allocated
  let at = 0;
  for (let i = 1; i < reserved.length; i++) if (reserved[i] > reserved[at] || (reserved[i] === reserved[at] && allocated[i] > allocated[at])) at = i;
  return at;
}
function lower(list, value) { let a = 0, b = list.length; while (a < b) { const m = (a + b) >> 1; if (list[m] < value) a = m + 1; else b = m; } return a; }

function hatch(c, x, y, w) { // crossed, so that it is told apart in print
  c.strokeStyle = color("--bg"); c.lineWidth = 1; c.beginPath();
  for (let at = 0; at < w; at += 5) { c.moveTo(x + at, y); c.lineTo(x + Math.min(at + BAR, w), y + BAR); c.moveTo(x + at, y + BAR); c.lineTo(x + Math.min(at + BAR, w), y); }
  c.stroke();
}

function layout(film, { live, segments }) { // segments, the largest first, each with its live blocks by address
  const rows = [...segments.values()].map((segment) => ({ ...segment, blocks: [], free: segment.size }));
  rows.sort((a, b) => a.address - b.address);
  const starts = rows.map((row) => row.address);
  for (const [block, pending] of live) {
    const address = film.addressOf[block], kind = film.kindOf[block], size = film.kinds[kind][1], row = rows[lower(starts, address + 1) - 1];
    if (!row || address >= row.address + row.size) continue;
    row.blocks.push({ address, size: Math.min(size, row.address + row.size - address), kind, pending, born: film.bornAt[block] });
    row.free -= size;
  }
  for (const row of rows) { row.blocks.sort((a, b) => a.address - b.address); row.free = Math.max(row.free, 0); }
  rows.sort((a, b) => b.size - a.size || a.address - b.address);
  return { rows, blocks: live.size };
}

function fill(table, titles, rows) { // text only: nothing of a file becomes markup
  const line = (cells, tag) => { const tr = document.createElement("tr"); for (const text of cells) { const cell = document.createElement(tag); cell.textContent = text; tr.append(cell); } return tr; };
  table.replaceChildren(line(titles, "th"), ...rows.map((cells) => line(cells, "td")));
}

for (const section of document.querySelectorAll("section.film"))
  Film.read(section.querySelector("script").textContent).then((film) => new View(section, film), (error) => { section.querySelector(".said").textContent = `this browser cannot draw the history (${error}); the pictures and tables below hold`; });
