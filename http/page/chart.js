// A chart of the last minutes. The first series has an area under it. The pointer or the arrow keys
// show the values of one moment.
import { element, setAttribute, setText } from './dom.js';

const space = 'http://www.w3.org/2000/svg';
const windowsUs = [60e6, 120e6, 300e6];
const gapUs = 4e6; // nobody looked meanwhile
const edge = { left: 50, right: 6, top: 10, bottom: 20 };

function shape(tag, attributes) {
  const made = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// The next round number, so that the scale's half is one, too.
function roundUp(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.2, 1.6, 2, 3, 4, 6, 8, 10].find((step) => value <= step * power * 1.0001) * power;
}

export class Chart {
  // series: [{ name, value(sample) }], where the first has no name; text(value) writes a value, and
  // axis(value) one beside the scale.
  constructor(figure, { title, series, text, axis = text }) {
    Object.assign(this, { series, text, axis, title, samples: [], at: null });
    this.now = element('span', { class: 'now' });
    this.more = element('span', { class: 'more' });
    this.plot = shape('svg', { class: 'plot', role: 'img', tabindex: 0 });
    figure.append(element('figcaption', {},
      element('span', { class: 'name' }, title), this.more, this.now), this.plot);
    this.plot.addEventListener('pointermove', (event) => this.point(event.offsetX));
    this.plot.addEventListener('pointerleave', () => this.choose(null));
    this.plot.addEventListener('blur', () => this.choose(null));
    this.plot.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  show(samples) {
    this.samples = samples;
    if (this.at) this.at = samples.find((one) => one.time_us === this.at.time_us) ?? null;
    this.draw();
  }

  // The shortest window that holds all, or the longest.
  window() {
    const span = (this.samples.at(-1)?.time_us ?? 0) - (this.samples[0]?.time_us ?? 0);
    return windowsUs.find((one) => one >= span) ?? windowsUs.at(-1);
  }

  shownSamples() {
    const from = (this.samples.at(-1)?.time_us ?? 0) - this.window();
    return this.samples.filter((sample) => sample.time_us >= from);
  }

  point(x) {
    const time = this.timeAt(x);
    const distance = (sample) => Math.abs(sample.time_us - time);
    const shown = this.shownSamples();
    this.choose(shown.length === 0 ? null
      : shown.reduce((best, one) => (distance(one) < distance(best) ? one : best)));
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const shown = this.shownSamples();
    if (!step || shown.length === 0) return;
    event.preventDefault();
    const from = this.at ? shown.indexOf(this.at) : shown.length - (step < 0 ? 0 : 1);
    this.choose(shown[Math.max(0, Math.min(shown.length - 1, from + step))]);
  }

  choose(sample) {
    this.at = sample;
    this.draw();
  }

  timeAt(x) {
    const end = this.samples.at(-1)?.time_us ?? 0;
    return end - this.window() * (1 - (x - edge.left) / (this.width() - edge.left - edge.right));
  }

  width() {
    return this.plot.clientWidth || 320;
  }

  path(value, x, y) {
    let line = '';
    let before = null;
    for (const sample of this.shownSamples()) {
      const here = value(sample);
      if (here === null || here === undefined) { before = null; continue; }
      const joined = before !== null && sample.time_us - before < gapUs;
      line += `${joined ? 'L' : 'M'}${x(sample).toFixed(1)} ${y(here).toFixed(1)}`;
      before = sample.time_us;
    }
    return line;
  }

  draw() {
    const [width, height] = [this.width(), this.plot.clientHeight || 150];
    const shown = this.shownSamples();
    const values = shown.flatMap((sample) => this.series.map((one) => one.value(sample) ?? 0));
    const most = roundUp(Math.max(0, ...values));
    const end = shown.at(-1)?.time_us ?? 0;
    const x = (sample) => width - edge.right
      - ((end - sample.time_us) / this.window()) * (width - edge.left - edge.right);
    const y = (value) => height - edge.bottom
      - (value / most) * (height - edge.top - edge.bottom);
    const shapes = [];
    for (const part of [0, 0.5, 1]) {
      const level = y(part * most);
      shapes.push(shape('line', {
        class: 'grid', x1: edge.left, x2: width - edge.right, y1: level, y2: level,
      }));
      const label = shape('text', { x: edge.left - 7, y: level + 4, 'text-anchor': 'end' });
      label.textContent = this.axis(part * most);
      shapes.push(label);
    }
    for (const [place, text, anchor] of [[edge.left, `${this.window() / 60e6} min ago`, 'start'],
      [width - edge.right, 'now', 'end']]) {
      const label = shape('text', { x: place, y: height - 4, 'text-anchor': anchor });
      label.textContent = text;
      shapes.push(label);
    }
    this.series.forEach((one, number) => {
      const line = this.path(one.value, x, y);
      if (!line) return;
      if (number === 0) shapes.unshift(shape('path', { class: 'area', d: this.below(line, y(0)) }));
      shapes.push(shape('path', { class: number ? 'line second' : 'line', d: line }));
    });
    this.mark(shapes, x, y, height);
    this.plot.replaceChildren(...shapes);
    this.tell(shown);
  }

  // Closes each stretch of a line down to the base.
  below(line, base) {
    return line.split('M').filter(Boolean).map((stretch) => {
      const points = stretch.split('L');
      const [first, last] = [points[0], points.at(-1)].map((one) => one.split(' ')[0]);
      return `M${first} ${base}L${points.join('L')}L${last} ${base}Z`;
    }).join('');
  }

  mark(shapes, x, y, height) {
    if (!this.at) return;
    const place = x(this.at);
    if (place < edge.left) return;
    shapes.push(shape('line', {
      class: 'cross', x1: place, x2: place, y1: edge.top, y2: height - edge.bottom,
    }));
    const value = this.series[0].value(this.at);
    if (value === null) return;
    shapes.push(shape('circle', { class: 'dot', cx: place, cy: y(value), r: 3.5 }));
  }

  tell(shown) {
    const sample = this.at ?? shown.at(-1);
    const [value, other] = this.series.map((one) => (sample ? one.value(sample) : null));
    const told = (one) => (one === null || one === undefined ? '–' : this.text(one));
    const ago = this.at ? Math.round((shown.at(-1).time_us - this.at.time_us) / 1e6) : 0;
    setText(this.now, told(value));
    setText(this.more, [Number.isFinite(other) && `${this.series[1].name} ${told(other)}`,
      this.at && `${ago} s ago`].filter(Boolean).join(', '));
    const values = shown.map(this.series[0].value).filter((one) => one !== null);
    const range = values.length === 0 ? '' : `, in the last minutes between ${
      this.text(Math.min(...values))} and ${this.text(Math.max(...values))}`;
    setAttribute(this.plot, 'aria-label',
      [`${this.title}: ${this.now.textContent}`, this.more.textContent].filter(Boolean).join(', ')
      + range);
  }
}
