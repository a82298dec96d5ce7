// The batches and how far they are.
import { element, find, keep, makeBar, setBar, setText } from './dom.js';
import { count, percent, plural, rate, roughly } from './format.js';
import { batchName } from './names.js';

function totals(batch) {
  const { queued, leased, completed, failed, cancelled, expired } = batch.counts;
  const ended = completed + failed + cancelled + expired;
  return { ...batch.counts, ended, all: ended + queued + leased };
}

function leftText(batch, { queued, leased }) {
  if (batch.paused) return 'paused';
  if (batch.eta_s !== undefined) return roughly(1_000 * batch.eta_s);
  return queued + leased === 0 ? 'done' : 'waits';
}

function make(batch) {
  return element('tr', {},
    element('td', {}, element('span', { class: 'name-cut', title: batch.batch })),
    element('td', { class: 'grows' }, makeBar(`Progress of ${batch.batch}`)),
    element('td', { class: 'figure' }), element('td', { class: 'figure', 'data-name': 'failed' }),
    element('td', { class: 'figure spare' }), element('td', { class: 'figure left' }));
}

function update(row, batch) {
  const [name, progress, done, failed, speed, left] = row.children;
  const sums = totals(batch);
  const share = (number) => (sums.all === 0 ? 0 : number / sums.all);
  setText(name.firstElementChild, batchName(batch.batch));
  setBar(progress.firstElementChild, [['completed', share(sums.completed)],
    ['failed', share(sums.failed)], ['other', share(sums.cancelled + sums.expired)],
    ['running', share(sums.leased)]],
  `${percent(share(sums.ended))} done, ${plural(sums.failed, 'job')} failed${
    sums.leased > 0 ? `, ${count(sums.leased)} with engines` : ''}`);
  setText(done, `${count(sums.ended)} of ${count(sums.all)}`);
  setText(failed, count(sums.failed));
  setText(speed, batch.jobs_per_second > 0 ? rate(batch.jobs_per_second) : '');
  setText(left, leftText(batch, sums));
}

export function showBatches(view) {
  const { batches, batches_known: known, more_batches: more } = view;
  find('batches-empty').hidden = batches.length > 0;
  setText(find('batches-note'), batches.length < known || more
    ? `${count(batches.length)} of ${more ? 'more than ' : ''}${count(known)}, those at work first`
    : batches.length > 0 ? plural(known, 'batch', 'batches') : '');
  keep(find('batch-rows'), batches, (batch) => batch.batch, make, update);
}
