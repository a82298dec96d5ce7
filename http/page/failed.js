// The failed jobs and why they failed. They are asked for when their number changes.
import { element, find, keep, setText } from './dom.js';
import { count, moment, plural } from './format.js';
import { batchName } from './names.js';
import { askJson } from './server.js';

const firstRows = 6;
const moreRows = 30;
const pauseMs = 2_000;

function make(openJob) {
  return (job) => element('tr', {},
    element('td', {}, element('button', {
      type: 'button', class: 'link name-cut', title: job.job, onclick: () => openJob(job.job),
    })),
    element('td', { class: 'grows' }, element('span', {}), element('div', { class: 'tail' })),
    element('td', { class: 'spare' }, element('span', { class: 'name-cut', title: job.batch })),
    element('td', { class: 'figure spare' }), element('td', { class: 'figure' }));
}

function update(row, job) {
  const [name, reason, batch, attempts, when] = row.children;
  setText(name.firstElementChild, job.custom_id || job.job);
  setText(reason.firstElementChild, job.error?.message || job.error?.code || 'unknown');
  setText(reason.lastElementChild, job.error?.hint ?? '');
  setText(batch.firstElementChild, batchName(job.batch));
  setText(attempts, count(job.attempts));
  setText(when, job.ended_us ? moment(job.ended_us) : '');
}

export function makeFailed(openJob) {
  let jobs = [];
  let more = false;
  let [shown, asked, askedAt] = [firstRows, null, -Infinity];

  function draw(total) {
    const newest = [...jobs].sort((one, other) => (other.ended_us ?? 0) - (one.ended_us ?? 0));
    const reasons = new Map();
    for (const job of jobs) {
      const code = job.error?.code ?? 'unknown';
      reasons.set(code, (reasons.get(code) ?? 0) + 1);
    }
    keep(find('reasons'), [...reasons].sort((one, other) => other[1] - one[1]), ([code]) => code,
      () => element('li'), (item, [code, number]) => setText(item, `${code} · ${count(number)}`));
    keep(find('failed-rows'), newest.slice(0, shown), (job) => job.job, make(openJob), update);
    find('failed-empty').hidden = total > 0;
    find('failed-more').hidden = newest.length <= shown;
    setText(find('failed-note'), total === 0 ? ''
      : `${plural(total, 'job')}${more ? `; reasons of ${count(jobs.length)}` : ''}`);
  }

  async function look(total) {
    [asked, askedAt] = [total, performance.now()];
    try {
      ({ jobs, more } = await askJson('/live/jobs?state=failed'));
    } catch {
      asked = null; // again with the next view
    }
    draw(total);
  }

  find('failed-more').addEventListener('click', () => {
    shown += moreRows;
    draw(asked);
  });

  return ({ counts: { failed } }) => {
    if (failed === 0) jobs = [];
    else if (failed !== asked && performance.now() - askedAt > pauseMs) look(failed);
    if (failed === 0) asked = 0;
    if (failed === 0 || asked === null) draw(failed);
  };
}
