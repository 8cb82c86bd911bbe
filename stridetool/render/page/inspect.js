// What the pointer or the arrow keys are on: index → offset → byte → address → value, and the same byte in the strips.
// The page says all of it without this script too: each cell has a title.
"use strict";
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const where = document.getElementById("where");
  const strips = new Map();
  for (const strip of document.querySelectorAll("figure.strip")) strips.set(strip.dataset.storage, strip);
  let marks = [];

  function clear() {
    for (const mark of marks) mark.remove();
    marks = [];
    for (const cell of document.querySelectorAll(".cell.here")) cell.classList.remove("here");
  }

  // A frame around the bytes [first, first + nbytes) in every lane of a storage.
  function mark(storage, first, nbytes) {
    const strip = strips.get(storage);
    if (!strip) return;
    const scale = Number(strip.dataset.px) / Number(strip.dataset.cell);
    const svg = strip.querySelector("svg");
    const frame = document.createElementNS(NS, "rect");
    frame.setAttribute("class", "here-mark");
    frame.setAttribute("x", Number(strip.dataset.left) + first * scale - 1);
    frame.setAttribute("y", 18);
    frame.setAttribute("width", Math.max(2, nbytes * scale + 1));
    frame.setAttribute("height", Math.max(10, svg.viewBox.baseVal.height - 22));
    svg.appendChild(frame);
    marks.push(frame);
  }

  function showCell(cell) {
    clear();
    const { storage, byte, nbytes } = cell.dataset;
    for (const other of document.querySelectorAll(`.cell[data-byte="${byte}"]`))
      if (other.dataset.storage === storage) other.classList.add("here");
    mark(storage, Number(byte), Number(nbytes));
    where.textContent = cell.querySelector("title").textContent;
  }

  // The index that leads to an offset: from the largest stride down. Exact where elements do not overlap.
  function indexOf(offset, lane) {
    const sizes = lane.sizes.split(",").filter(Boolean).map(Number);
    const strides = lane.strides.split(",").filter(Boolean).map(Number);
    let rest = offset - Number(lane.offset);
    const index = sizes.map((n, d) => { if (strides[d] < 0) { rest -= (n - 1) * strides[d]; } return 0; });
    const dims = strides.map((_, d) => d).filter((d) => strides[d] !== 0 && sizes[d] > 1);
    dims.sort((a, b) => Math.abs(strides[b]) - Math.abs(strides[a]));
    for (const d of dims) {
      const steps = Math.min(Math.floor(rest / Math.abs(strides[d])), sizes[d] - 1);
      index[d] = steps;
      rest -= steps * Math.abs(strides[d]);
    }
    dims.forEach((d) => { if (strides[d] < 0) index[d] = sizes[d] - 1 - index[d]; });
    return rest === 0 ? index : null;
  }

  function byteAt(strip, event) {
    const svg = strip.querySelector("svg");
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width - Number(strip.dataset.left);
    return Math.floor((x / Number(strip.dataset.px)) * Number(strip.dataset.cell));
  }

  function showByte(strip, lane, byte) {
    clear();
    const origin = Number(strip.dataset.origin);
    const unit = lane ? Number(lane.unit) : 1;
    const offset = Math.floor(byte / unit);
    const index = lane && unit > 0 ? indexOf(offset, lane) : null;
    const parts = [`${strip.dataset.storage} byte ${byte.toLocaleString("en")}`];
    if (origin) parts.push(`address 0x${(origin + byte).toString(16)}`);
    if (lane) parts.push(index ? `${lane.name}[${index.join(", ")}], offset ${offset}` : `not an element of ${lane.name}`);
    where.textContent = parts.join(" → ");
    mark(strip.dataset.storage, unit > 1 ? offset * unit : byte, unit);
  }

  for (const strip of strips.values()) {
    const svg = strip.querySelector("svg");
    svg.addEventListener("pointermove", (event) => {
      const byte = byteAt(strip, event);
      const lane = event.target.closest(".lane");
      if (byte >= 0) showByte(strip, lane && lane.dataset.sizes !== undefined ? lane.dataset : null, byte);
    });
  }
  for (const figure of document.querySelectorAll("figure.order")) {
    const cells = [...figure.querySelectorAll(".cell")];
    figure.addEventListener("pointerover", (event) => { if (event.target.classList.contains("cell")) showCell(event.target); });
    let at = -1;
    figure.addEventListener("focus", () => { if (at < 0 && cells.length) showCell(cells[at = 0]); });
    figure.addEventListener("keydown", (event) => {
      const grid = cells[Math.max(at, 0)]?.closest(".grid");
      const width = grid ? rowLength(grid) : 1;
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: width, ArrowUp: -width, Home: -cells.length, End: cells.length }[event.key];
      if (step === undefined || !cells.length) return;
      event.preventDefault();
      at = Math.min(Math.max(at + step, 0), cells.length - 1);
      showCell(cells[at]);
    });
  }

  function rowLength(grid) {
    const cells = [...grid.querySelectorAll(".cell")];
    const top = cells[0].getAttribute("y");
    return cells.filter((cell) => cell.getAttribute("y") === top).length;
  }
})();
