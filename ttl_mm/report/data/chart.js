'use strict';
// Every figure with data becomes a chart: values under the pointer, runs that can be switched off,
// logarithmic axes. Without this script the picture inside the figure stays.
const HEIGHT = 280, LEFT = 54, RIGHT = 12, TOP = 10, BOTTOM = 44;
const NEAREST = 8;  // runs whose values are shown at once
const make = (name, attributes = {}, text) => {
  const svg = ['svg', 'path', 'line', 'circle', 'text', 'g'].includes(name);
  const element = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
};
const compact = new Intl.NumberFormat('en', {notation: 'compact', maximumSignificantDigits: 4});
const format = v => v === 0 ? '0' : Math.abs(v) < 1e-3 ? v.toExponential(2).replace('.00', '')
  : Math.abs(v) >= 1e4 ? compact.format(v) : String(Number(v.toPrecision(5)));

// what was chosen is remembered while a page that follows a job loads itself again
const memory = {
  read: key => { try { return JSON.parse(sessionStorage.getItem(key)) || {}; } catch { return {}; } },
  write: (key, value) => { try { sessionStorage.setItem(key, JSON.stringify(value)); } catch { /* not kept */ } },
};

function scaleOf(low, high, log, from, to) {
  const warp = log ? Math.log10 : v => v;
  let [a, b] = [warp(low), warp(high)];
  if (a === b) { a -= log ? .5 : Math.abs(a) / 10 || 1; b += log ? .5 : Math.abs(b) / 10 || 1; }
  const place = v => from + (warp(v) - a) / (b - a) * (to - from);
  const value = p => { const v = a + (p - from) / (to - from) * (b - a); return log ? 10 ** v : v; };
  const ticks = [];
  if (log) {
    const each = Math.max(1, Math.ceil((b - a) / 6)), inner = b - a < 1 ? [1, 2, 3, 4, 5, 6, 7, 8, 9] : b - a < 3 ? [1, 2, 5] : [1];
    for (let power = Math.floor(a); power <= b; power += each)
      for (const m of inner) { const v = m * 10 ** power; if (warp(v) >= a - 1e-9 && warp(v) <= b + 1e-9) ticks.push(v); }
  } else {
    const rough = (b - a) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find(m => m * power >= rough * .999);
    for (let n = Math.ceil(a / step - 1e-9); n * step <= b + step * 1e-9; n++) ticks.push(n * step);
  }
  return {place, value, ticks};
}

function startChart(figure) {
  const data = JSON.parse(figure.querySelector('script').textContent), key = `chart ${figure.id}`;
  const state = {hidden: [], x: data.logX, y: data.logY, ...memory.read(key)};
  const box = make('div', {class: 'chart'}), values = make('div', {class: 'values'}), legend = make('ul');
  const scales = make('span', {class: 'scales'});
  const svg = make('svg', {tabindex: 0, role: 'img', 'aria-label': figure.querySelector('figcaption').textContent});
  values.hidden = true;
  box.append(scales, svg, values, legend);
  figure.querySelector('img').replaceWith(box);
  let shown = [], across, cursor = null, width = 0;
  const changed = () => { memory.write(key, state); draw(); };

  for (const axis of ['x', 'y']) {
    const button = make('button', {'aria-pressed': state[axis], title: `Logarithmic ${axis} axis`}, `log ${axis}`);
    button.disabled = !data.lines.some(line => line[axis].some(v => v > 0));
    button.onclick = () => { state[axis] = !state[axis]; button.setAttribute('aria-pressed', state[axis]); changed(); };
    scales.append(button, ' ');
  }
  for (const line of data.lines.length > 1 ? data.lines : []) {
    const item = make('li'), button = make('button', {'aria-pressed': !state.hidden.includes(line.name)});
    const mark = make('svg', {viewBox: '0 0 22 8'});
    mark.append(make('path', {d: 'M0 4H22', stroke: line.color, 'stroke-width': 3, 'stroke-dasharray': line.dash}));
    button.append(mark, line.name);
    button.onclick = () => {
      const off = state.hidden.includes(line.name);
      state.hidden = off ? state.hidden.filter(name => name !== line.name) : [...state.hidden, line.name];
      button.setAttribute('aria-pressed', off);
      changed();
    };
    item.append(button);
    legend.append(item);
  }

  function draw() {
    svg.replaceChildren();
    svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    const usable = v => (!state.x || v[0] > 0) && (!state.y || v[1] > 0);
    shown = data.lines.filter(line => !state.hidden.includes(line.name))
      .map(line => ({...line, points: line.x.map((x, i) => [x, line.y[i]]).filter(usable)}))
      .filter(line => line.points.length);
    const all = shown.flatMap(line => line.points), edge = n => {
      let low = Infinity, high = -Infinity;
      for (const p of all) { low = Math.min(low, p[n]); high = Math.max(high, p[n]); }
      return [low, high];
    };
    if (!all.length) { svg.append(make('text', {x: LEFT, y: HEIGHT / 2}, 'Nothing is switched on.')); return; }
    let [bottom, top] = edge(1);
    if (data.fromZero && !state.y) bottom = Math.min(0, bottom);
    across = scaleOf(...edge(0), state.x, LEFT, width - RIGHT);
    const up = scaleOf(bottom, top, state.y, HEIGHT - BOTTOM, TOP);
    for (const v of up.ticks) {
      svg.append(make('line', {class: 'grid', x1: LEFT, x2: width - RIGHT, y1: up.place(v), y2: up.place(v)}),
        make('text', {x: LEFT - 6, y: up.place(v) + 4, 'text-anchor': 'end'}, format(v)));
    }
    let last = -Infinity;
    for (const v of across.ticks) {
      const x = across.place(v), text = format(v), half = 4 * text.length;
      svg.append(make('line', {class: 'grid', x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM}));
      if (x - half < last) continue;  // no room for this number
      svg.append(make('text', {x: Math.min(x, width - half), y: HEIGHT - BOTTOM + 16, 'text-anchor': 'middle'}, text));
      last = x + half;
    }
    svg.append(make('text', {x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 8, 'text-anchor': 'middle'}, data.xLabel),
      make('text', {transform: `translate(11 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`, 'text-anchor': 'middle'}, data.yLabel));
    for (const line of shown) {
      line.places = line.points.map(([x, y]) => [across.place(x), up.place(y)]);
      svg.append(make('path', {class: 'curve', stroke: line.color, 'stroke-dasharray': line.dash,
        d: line.places.map(([x, y], n) => `${n ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`).join('')}));
      if (data.markers || line.points.length === 1)
        for (const [x, y] of line.places) svg.append(make('circle', {cx: x, cy: y, r: 3, fill: line.color}));
    }
    cursor = make('line', {class: 'cursor', y1: TOP, y2: HEIGHT - BOTTOM, visibility: 'hidden'});
    svg.append(cursor);
    values.hidden = true;
  }

  function show(x, y) {  // the values of the runs at the place that is nearest to the pointer
    const steps = shown.flatMap(line => line.places.map(p => p[0]));
    if (!steps.length) return;
    const at = steps.reduce((best, p) => Math.abs(p - x) < Math.abs(best - x) ? p : best);
    const rows = shown.map(line => {
      const n = line.places.reduce((best, p, i) => Math.abs(p[0] - at) < Math.abs(line.places[best][0] - at) ? i : best, 0);
      return {line, x: line.points[n][0], y: line.points[n][1], away: Math.abs(line.places[n][1] - y), off: Math.abs(line.places[n][0] - at)};
    }).filter(row => row.off < 24);
    const near = new Set([...rows].sort((a, b) => a.away - b.away).slice(0, NEAREST));
    values.replaceChildren(`${data.xLabel} ${format(across.value(at))}`, ...rows.filter(row => near.has(row)).map(row => {
      const item = make('div'), mark = make('i');
      mark.style.background = row.line.color === 'currentColor' ? 'var(--ink)' : row.line.color;
      item.append(mark, data.lines.length > 1 ? `${row.line.name}: ${format(row.y)}` : format(row.y));
      return item;
    }));
    if (near.size < rows.length) values.append(`and ${rows.length - near.size} more`);
    values.hidden = false;
    cursor.setAttribute('x1', at);
    cursor.setAttribute('x2', at);
    cursor.setAttribute('visibility', 'visible');
    const room = box.clientWidth - values.offsetWidth;
    values.style.left = `${Math.max(0, Math.min(at + 12, room))}px`;
    if (at + 12 > room) values.style.left = `${Math.max(0, at - 12 - values.offsetWidth)}px`;
    values.style.top = `${svg.getBoundingClientRect().top - box.getBoundingClientRect().top + TOP}px`;
    return at;
  }
  let at = null;
  const leave = () => { values.hidden = true; if (cursor) cursor.setAttribute('visibility', 'hidden'); };
  svg.onpointermove = svg.onpointerdown = event => {
    const place = svg.getBoundingClientRect();
    at = show(event.clientX - place.left, event.clientY - place.top);
  };
  svg.onpointerleave = svg.onblur = leave;
  svg.onkeydown = event => {
    const way = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!way) return;
    event.preventDefault();
    const steps = [...new Set(shown.flatMap(line => line.places.map(p => p[0])))].sort((a, b) => a - b);
    const now = at === null ? (way > 0 ? -1 : steps.length) : steps.reduce((best, p, i) => Math.abs(p - at) < Math.abs(steps[best] - at) ? i : best, 0);
    at = show(steps[Math.min(steps.length - 1, Math.max(0, now + way))], HEIGHT / 2);
  };
  new ResizeObserver(() => { if (box.clientWidth !== width) { width = box.clientWidth; draw(); } }).observe(box);
}
document.querySelectorAll('figure[data-chart]').forEach(startChart);
const refresh = Number(document.body.dataset.refresh);
if (refresh) setTimeout(() => location.reload(), 1000 * refresh);
